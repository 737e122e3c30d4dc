"""The mpiexec that tests of several ranks take: MPICH's, or Open MPI's, which wants other words."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_beside = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_beside) if _beside.exists() else shutil.which("mpiexec")

needs_ranks = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="several ranks need mpiexec and mpi4py: pip install 'fanstore-fs[mpi]'",
)

# What a rank's shell says for its number.
RANK = "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"

# As root, and with more ranks than processors; Open MPI 4 and 5.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@functools.cache
def is_open_mpi() -> bool:
    """Whether MPIEXEC is Open MPI's."""
    if MPIEXEC is None:
        return False
    said = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in said.stdout or "OpenRTE" in said.stdout


# Options with which the other ranks go on when one is killed.
_KEEP_OPEN_MPI = ("--runtime-options", "recoverable,error-nonzero-status=0")
KEEP = _KEEP_OPEN_MPI if is_open_mpi() else ("-disable-auto-cleanup",)

needs_hydra = pytest.mark.skipif(is_open_mpi(), reason="about MPICH's mpiexec")

if is_open_mpi():
    os.environ.update(_OPEN_MPI)
