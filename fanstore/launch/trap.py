"""Runs a command under seccomp (`--trap`), for programs that the preload library cannot enter."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from fanstore._native import trap_path
from fanstore.launch import report


def trapped(command: Sequence[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command and environment that start `command` under csrc/trap's supervisor. The
    supervisor contains the code of the preload library, so it does not preload it; the command
    does. Raises FanstoreError if the supervisor was not built."""
    own = dict(environ)
    preload = own.pop("LD_PRELOAD", "")
    return [os.fspath(trap_path()), report.speaker(), preload, *command], own
