"""Commands on a terminal of their own."""

from __future__ import annotations

import os
import pty
from pathlib import Path

from serving import Stage


def on_terminal(stage: Stage, argv: list[str]) -> tuple[int, int]:
    """Runs a command as the session of a new terminal: (pid, terminal)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, stage.env)
    return pid, terminal


def drain(terminal: int) -> str:
    """All that a terminal shows until its last writer is gone."""
    shown = b""
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            data = b""
        if not data:
            return shown.decode()
        shown += data


def state(pid: int) -> str:
    """A process's state, as ps shows it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
