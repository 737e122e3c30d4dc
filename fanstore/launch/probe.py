"""Makes a command ready to start under a job, and checks that programs here load the preload
library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from fanstore.errors import FanstoreError
from fanstore.launch.containers import Container, needed_paths
from fanstore.launch.environment import command_environment, trapped
from fanstore.messages.job import JobDescription
from fanstore.node.segment import read_processes
from fanstore.programs import elf

_SHELL = "/bin/sh"
NAME = "fanstore-probe"  # shown in lists of processes, as an argument of the test program
_LIMIT_S = 10.0  # if the machine is too busy, the command itself will show a problem
_LOADERS_REASON = re.compile(r"ld\.so: .*?\((.*)\): ignored")


def prepared(
    command: Sequence[str],
    environ: Mapping[str, str],
    job: JobDescription,
    trap: bool,
    container: Container | None,
) -> tuple[Sequence[str], Mapping[str, str], int]:
    """Returns the words and the environment that start `command` under a job: under `--trap`, in a
    container, or with the preload library; and how many programs had loaded the library by now.
    Raises FanstoreError if programs here do not load it, or the supervisor was not built."""
    inside = command_environment(environ, job)
    if container is not None:
        outside = container.environ(environ, needed_paths(job))
        entered = prove(outside, job, container)
        return container.command(command, job), outside, entered
    if trap:
        return *trapped(command, inside), 0
    return command, inside, prove(inside, job)


def prove(
    environ: Mapping[str, str], job: JobDescription, container: Container | None = None
) -> int:
    """Returns how many programs of the job have loaded the library, including the test program.

    Starts a program that does nothing, in the command's environment and container; the job's
    segment must count it. If something keeps the library out of the command (a file system mounted
    noexec, a path that is not visible there, another libc, another LD_PRELOAD), it keeps the
    library out of this program, too. Then raises FanstoreError: the command would find empty
    directories, or the original files."""
    segment = os.path.join(job.job_directory, "segment")
    before = read_processes(segment)
    program = None if container is None else container.command([_SHELL, "-c", ":"], job)
    said = _said_by_nothing(environ, program)
    after = read_processes(segment)
    if after == before and said is not None:
        raise FanstoreError(_refusal(job, said, container))
    return after


def _said_by_nothing(environ: Mapping[str, str], program: Sequence[str] | None) -> str | None:
    """Starts a program that does nothing, by default one of this machine's. Returns the dynamic
    loader's messages, or None if no such program could be started."""
    if program is None:
        program = [_SHELL, "-c", ":"] if _is_glibcs(_SHELL) else [sys.executable, "-ISc", ""]
    try:
        done = subprocess.run(
            [*program, NAME], env=dict(environ), timeout=_LIMIT_S, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr.decode(errors="replace")


def _is_glibcs(program: str) -> bool:
    """Returns whether a program uses glibc's dynamic loader: a shell may be statically linked."""
    try:
        with open(program, "rb") as file:
            return os.path.basename(elf.read(file).interpreter or "").startswith("ld-linux")
    except (OSError, elf.Damaged):
        return False


def _refusal(job: JobDescription, said: str, container: Container | None) -> str:
    library = job.preload
    told = _LOADERS_REASON.search(said)
    lines = said.strip().splitlines()
    reason = told[1] if told else lines[-1] if lines else "the loader here ignores it"
    if container is not None:
        return (
            f"{library} is not loaded by programs of the container ({reason}), so the command "
            "would not see the mounts. These paths must be there at the same place: "
            f"{', '.join(needed_paths(job))}; and its C library must be glibc, not older than what "
            "FanStore was built with (wheels: 2.28), for musl has another loader"
        )
    return (
        f"{library} is not loaded by programs here ({reason}), so the command would not see the "
        "mounts. Install FanStore where programs may be run from and the command can read, or "
        "use --trap, which needs no library"
    )
