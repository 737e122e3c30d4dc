"""Finds out whether a launcher (mpiexec, srun) started this process as one of several ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fanstore.errors import UsageError

# The variables with (rank, world size) of Hydra and Slurm's pmi2, of Open MPI, and of srun itself.
_PAIRS = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
NO_MPI4PY = "several ranks need MPI, and mpi4py is not installed: pip install 'fanstore-fs[mpi]'"
_MPI_PREFIXES = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDRA_", "HYDI_")


@dataclass(frozen=True)
class Launcher:
    """How a launcher started this process: its rank and the number of ranks.

    is_hydra: MPICH's mpiexec started it. That launcher signals whole process groups, and sends
    SIGUSR1 to all ranks of a node when one was lost."""

    rank: int
    world_size: int
    is_hydra: bool = False


ALONE = Launcher(0, 1)


def detect(environ: Mapping[str, str]) -> Launcher:
    """Returns the launcher that the environment describes. Raises UsageError if its numbers are not
    valid."""
    for rank_name, size_name in _PAIRS:
        if rank_name == "SLURM_PROCID" and "SLURM_STEP_ID" not in environ:
            continue  # these are the batch script's, which is no rank
        if environ.get(rank_name) and environ.get(size_name):
            launcher = _parse(environ, rank_name, size_name)
            return launcher if launcher.world_size > 1 else ALONE
    return ALONE


def _parse(environ: Mapping[str, str], rank_name: str, size_name: str) -> Launcher:
    try:
        rank, size = int(environ[rank_name]), int(environ[size_name])
    except ValueError:
        rank, size = -1, 0
    if not 0 <= rank < size:
        raise UsageError(
            f"{rank_name}={environ[rank_name]}, {size_name}={environ[size_name]}: not a rank"
        )
    # PMI_RANK alone does not show Hydra: Slurm's pmi2 sets it, too.
    return Launcher(rank, size, rank_name == "PMI_RANK" and "MPI_LOCALRANKID" in environ)


def for_rank(path: str | None, launcher: Launcher) -> str | None:
    """Returns `path` with this rank's number in place of `{rank}`, for several ranks on one machine
    that each act as a node."""
    return path if path is None else path.replace("{rank}", str(launcher.rank))


def is_launched(environ: Mapping[str, str]) -> bool:
    """Returns whether a launcher started this process; also true for a single rank."""
    return any(name in environ for name in ("PMI_RANK", "PMI_FD", "PMIX_RANK", _PAIRS[1][0]))


def without_mpi(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns `environ` without the variables of MPI and its launchers, because the command is none
    of their ranks."""
    return {k: v for k, v in environ.items() if not k.startswith(_MPI_PREFIXES)}


def process_manager_fd(environ: Mapping[str, str]) -> int | None:
    """Returns the inherited descriptor over which MPI talks to its process manager (PMI); None if
    there is none."""
    text = environ.get("PMI_FD", "")
    return int(text) if text.isdigit() else None
