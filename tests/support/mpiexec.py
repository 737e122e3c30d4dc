"""The mpiexec that tests of several ranks take: MPICH's, or Open MPI's, which wants other words."""

from __future__ import annotations

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
_SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def _version() -> str:
    """What MPIEXEC calls itself; empty: there is none."""
    if MPIEXEC is None:
        return ""
    return subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout


_OPEN_MPI_4, _OPEN_MPI_5 = "OpenRTE", "Open MPI"
_SAID = _version()
IS_OPEN_MPI = _OPEN_MPI_4 in _SAID or _OPEN_MPI_5 in _SAID

# Options with which the other ranks go on when one is killed.
KEEP: tuple[str, ...] = ("-disable-auto-cleanup",)
if _OPEN_MPI_4 in _SAID:
    KEEP = ("--enable-recovery",)
elif _OPEN_MPI_5 in _SAID:
    KEEP = ("--with-ft", "ulfm", "--runtime-options", "recoverable,error-nonzero-status=0")

needs_hydra = pytest.mark.skipif(IS_OPEN_MPI, reason="about MPICH's mpiexec")

if IS_OPEN_MPI:
    os.environ.update(_SETTINGS)
