"""Warns about a command that uses MPI itself: `fanstore run` starts it once on each node, and not
as one MPI program of several ranks, as users may expect."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fanstore.launcher import Launcher
from fanstore.programs import elf
from fanstore.programs.check import find

_LOOKED_AT_BYTES = 1 << 20
_MODULES = (b"mpi4py", b"horovod")


def mpi_hint(command: Sequence[str], launcher: Launcher) -> str | None:
    """Returns a warning on rank 0 if the command uses MPI, else None. Detects only obvious uses."""
    if launcher.world_size == 1 or launcher.rank > 0 or not _uses_mpi(command):
        return None
    return (
        f"{os.path.basename(command[0])} uses MPI, but the launcher's ranks are FanStore's own: "
        "each node's command is an MPI program of one rank. For one program over all nodes: "
        "fanstore script --mode mpi, or fanstore start and fanstore exec (docs/slurm.md)"
    )


def _uses_mpi(command: Sequence[str]) -> bool:
    program = find(command[0])
    if program is not None and any(name.startswith("libmpi") for name in _needed(program)):
        return True
    return any(_names_a_module(word) for word in command)


def _needed(path: str) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            return elf.read(file).needed if file.read(4) == elf.MAGIC else ()
    except (OSError, elf.Damaged):
        return ()


def _names_a_module(word: str) -> bool:
    """Returns whether a word of the command names a module of MPI: as a script's path, or in its
    text (`python -c`)."""
    text = os.fsencode(word)
    if os.path.isfile(word):
        try:
            with open(word, "rb") as stream:
                text = stream.read(_LOOKED_AT_BYTES)
        except OSError:
            return False
    return any(b"import " + name in text or b"from " + name in text for name in _MODULES)
