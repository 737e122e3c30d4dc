"""Tries the transport without a job: `fanstore doctor` builds and loads it, and checks that it fits
mpi4py's MPI."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

from fanstore.errors import FanstoreError
from fanstore.transport.build import describe

LIMIT_S = 60.0

_NO_MPI4PY = (
    "mpi4py is not installed: several nodes need it, the site's or pip install 'fanstore-fs[mpi]'"
)


def attempt(limit_s: float = LIMIT_S) -> dict[str, str | None]:
    """Builds and loads the transport, and returns the result of `describe`; `problem` is the one
    that a job of several ranks would meet.

    The trial runs in another process, because a loaded library cannot be unloaded, and for a
    limited time, because a compiler or an MPI may hang."""
    if find_spec("mpi4py") is None:
        return {"problem": _NO_MPI4PY}
    told = describe()
    if told["problem"] is None:
        told["problem"] = _problem_of_a_trial(limit_s)
        told["library"] = describe()["library"]
    return told


def _problem_of_a_trial(limit_s: float) -> str | None:
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, wrong = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"building and loading it took more than {limit_s:g} s"
    if process.returncode != 0:
        last = (wrong.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        return f"it cannot be tried: {last}"
    return said.strip() or None


def main() -> int:
    """Prints the problem, or nothing if there is none. Does not start MPI."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    from fanstore.transport import library_for

    version = MPI.Get_library_version()
    try:
        library_for(version)
    except FanstoreError as error:
        print(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
