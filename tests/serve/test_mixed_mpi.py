"""Ranks that another MPI's launcher started."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from mpiexec import needs_hydra, needs_ranks
from serving import make_stage

from fanstore.errors import FanstoreError
from fanstore.startup import check_launcher

HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}
OPEN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
SLURM = {"PMI_RANK": "0", "PMI_SIZE": "2", "SLURM_PROCID": "0"}


def mpi(vendor: str) -> SimpleNamespace:
    return SimpleNamespace(get_vendor=lambda: (vendor, (4, 1, 0)))


@pytest.mark.parametrize(
    ("environ", "vendor", "said"),
    [
        (HYDRA, "Open MPI", "the launcher of MPICH started this rank, but mpi4py runs on Open MPI"),
        (OPEN, "MPICH", "the launcher of Open MPI started this rank, but mpi4py runs on MPICH"),
        (OPEN, "Intel MPI", "but mpi4py runs on Intel MPI: start the job with "),
    ],
)
def test_another_launcher_is_named(environ: dict[str, str], vendor: str, said: str) -> None:
    with pytest.raises(FanstoreError, match=said):
        check_launcher(environ, mpi(vendor))


@pytest.mark.parametrize(
    ("environ", "vendor"),
    [
        (HYDRA, "MPICH"), (HYDRA, "Intel MPI"), (OPEN, "Open MPI"), (SLURM, "Open MPI"),
        (SLURM, "MPICH"), ({}, "MPICH"), ({**SLURM, **OPEN}, "MPICH"),
    ],
)  # fmt: skip
def test_what_fits_is_left_alone(environ: dict[str, str], vendor: str) -> None:
    check_launcher(environ, mpi(vendor))


@needs_ranks
@needs_hydra
def test_a_rank_of_another_launcher_ends_with_one_sentence(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    dataset = stage.dataset(stage.source(files={"f": b"x"}))
    words = ("run", "--dataset", str(dataset), "--mount", str(stage.mount), "--", "true")
    done = stage.call(*words, code=125, **OPEN)
    assert "the launcher of Open MPI started this rank, but mpi4py runs on " in done.stderr
    assert "Abort" not in done.stderr and "died" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
