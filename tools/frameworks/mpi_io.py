# does: MPI-IO of 2 ranks: one input read in parts, one output written together
# needs: mpi4py mpich numpy
import subprocess
import sys
from pathlib import Path

import numpy as np
from case import run


def make(directory):
    np.arange(1000).tofile(directory / "a.bin")


def work(directory):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    part = np.empty(500, "i8")
    file = MPI.File.Open(world, str(directory / "a.bin"), MPI.MODE_RDONLY)
    file.Read_at_all(4000 * world.rank, part)
    file.Close()
    mode = MPI.MODE_CREATE | MPI.MODE_WRONLY
    file = MPI.File.Open(world, str(directory / "out" / "b.bin"), mode)
    file.Write_at_all(4000 * world.rank, part)
    file.Close()
    total = world.allreduce(int(part.sum()))
    if world.rank == 0:
        print(total, int(np.fromfile(directory / "out" / "b.bin", "i8").sum()), flush=True)


def use(directory):
    if sys.argv[3:] == ["rank"]:
        work(directory)
    else:
        mpiexec = Path(sys.executable).with_name("mpiexec")
        subprocess.run([mpiexec, "-n", "2", sys.executable, *sys.argv, "rank"], check=True)


run(make, use)
