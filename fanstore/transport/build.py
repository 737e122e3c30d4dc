"""Finds or builds the transport library for the site's MPI. A wheel contains it for the two most
common ABIs. For others, and in a checkout, it is built once for each MPI library and kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fanstore._native import preload_path
from fanstore.config import cache_folder
from fanstore.errors import FanstoreError

_FLAGS = (
    # -pthread: before glibc 2.32, pthread_sigmask is in a library of its own.
    "-std=gnu11 -D_GNU_SOURCE -O2 -g -fPIC -shared -pthread -fvisibility=hidden -Wall -Wextra "
    "-Wno-missing-field-initializers -Wl,-z,defs -Wl,-z,relro"
).split()
_COMPILE_LIMIT_S = 120
_ASK_LIMIT_S = 60
# Without the current directory: in a checkout it has an unbuilt `fanstore`.
_ASK_VERSION = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "from fanstore.transport.build import is_own_mpi; "
    "print(MPI.Get_library_version(), int(is_own_mpi()), sep='\\f')"
)
_COMMAND_NOT_FOUND = 127
# How the version texts of MPI libraries begin, by ABI; see the MPICH ABI compatibility initiative
# and MPI_Get_library_version(3).
_ABIS = {
    "mpich": ("MPICH", "Intel(R) MPI", "MVAPICH"),
    "openmpi": ("Open MPI",),
}


class _Compilation:
    """A running compiler. It has the methods of an MPI request, so that one function can wait for
    either."""

    def __init__(self, command: list[str], messages: Any) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages
        )
        self._deadline_s = time.monotonic() + _COMPILE_LIMIT_S

    def Test(self) -> bool:
        return self.process.poll() is not None or time.monotonic() > self._deadline_s

    def Wait(self) -> None:
        while not self.Test():
            time.sleep(0.01)

    def end(self) -> int | None:
        """Ends the compiler if it still runs. Returns its exit code, None if it had to be
        killed."""
        code = self.process.poll()
        if code is None:
            self.process.kill()
            self.process.wait()
        return code


def wait_without_bound(request: Any) -> None:
    """Waits for an MPI request without a time limit, even if other ranks have ended."""
    request.Wait()


def source_folder() -> Path:
    """Returns the folder csrc of the installed package, or else of the checkout."""
    installed = Path(__file__).resolve().parent / "csrc"
    checkout = Path(__file__).resolve().parent.parent.parent / "csrc"
    for folder in (installed, checkout):
        if (folder / "transport" / "mpi_transport.c").exists():
            return folder
    raise FanstoreError(f"the sources of the transport are missing ({installed})")


def is_own_mpi() -> bool:
    """Returns whether this process uses an MPI that is installed in its Python's environment, such
    as the one of PyPI's mpich, and no MPI of the site."""
    prefix = os.path.join(os.path.realpath(sys.prefix), "")
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in stream if "/libmpi" in line}
    return any(path.startswith(prefix) for path in paths)


def find_mpicc(own: bool = False) -> list[str]:
    """Returns the compiler wrapper: $MPICC, else mpicc on PATH, else the one beside this Python. If
    `own`, the MPI is this Python's, and the wrapper beside this Python comes before PATH."""
    chosen = shlex.split(os.environ.get("MPICC", ""))
    if chosen:
        found = shutil.which(chosen[0])
        if found is None:
            raise FanstoreError(f"MPICC names {chosen[0]}, which is not there")
        return [found, *chosen[1:]]
    beside = str(Path(sys.executable).parent)
    places = [beside, None] if own else [None, beside]
    found = next(filter(None, (shutil.which("mpicc", path=place) for place in places)), None)
    if found is None:
        raise FanstoreError(
            "several ranks need MPI's compiler wrapper: no mpicc on PATH nor in "
            f"{beside}; load the site's MPI, set MPICC, or pip install mpich"
        )
    return [found]


def library_name(version: str, mpicc: list[str]) -> str:
    """Returns the file name of the library that `mpicc` builds for the MPI `version`. The name
    depends on the sources, so that changed sources are built again."""
    digest = hashlib.sha256(repr((mpicc, _FLAGS, version, platform.machine())).encode())
    folder = source_folder()
    machine = folder / "node" / "machine"
    interface = [machine / "queue.h", machine / "transport.h"]
    for path in [*sorted((folder / "transport").iterdir()), *interface]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"libfanstore_transport-{digest.hexdigest()[:24]}.so"


def brought_name(abi: str) -> str:
    """Returns the file name of the library for an ABI that a wheel contains."""
    return f"libfanstore_transport-{abi}.so"


def brought_library(version: str) -> Path | None:
    """Returns the library in the wheel for the MPI `version`; None if there is none, or if $MPICC
    names a compiler to build with."""
    if os.environ.get("MPICC"):
        return None
    abis = [abi for abi, names in _ABIS.items() if any(name in version for name in names)]
    paths = [preload_path().with_name(brought_name(abi)) for abi in abis]
    return next((path for path in paths if path.exists()), None)


@contextlib.contextmanager
def built_library(version: str, wait: Callable[[Any], None] = wait_without_bound) -> Iterator[Path]:
    """Yields the path of the library for the MPI `version`, and builds the library if needed. Load
    it before the block ends. `wait` waits for the compiler: one rank may build while others wait
    for it. Raises FanstoreError if it cannot be built."""
    mpicc = find_mpicc(is_own_mpi())
    name = library_name(version, mpicc)
    folder = cache_folder()
    with contextlib.ExitStack() as stack:
        needs_link = _is_split(mpicc[0])
        if not _is_ours_to_write(folder) or (needs_link and _is_split(str(folder))):
            folder = Path(stack.enter_context(_scratch(needs_link)))
        library = folder / name
        if not library.exists():
            compile_library(quotable(mpicc, folder), library, wait)
        yield library


def _is_split(path: str) -> bool:
    """Returns whether a shell would split a path that is not quoted into several words."""
    return len(path.split()) != 1


def _scratch(needs_link: bool) -> tempfile.TemporaryDirectory[str]:
    """Returns a temporary folder. If it is to hold a link, its path contains no space."""
    usual = tempfile.gettempdir()
    place = "/tmp" if needs_link and _is_split(usual) else usual
    return tempfile.TemporaryDirectory(prefix="fanstore-mpi-", dir=place)


def quotable(mpicc: list[str], folder: Path) -> list[str]:
    """Returns a compiler wrapper whose path has no space: a link in `folder` if needed. MPICH's
    wrapper is a script that finds its headers from its own path without quoting it. The built
    library contains the link's path."""
    if not _is_split(mpicc[0]):
        return mpicc
    path = Path(os.path.abspath(mpicc[0]))
    prefix = path.parent.parent
    link = folder / f"mpi-{hashlib.sha256(os.fsencode(prefix)).hexdigest()[:16]}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(prefix)
    return [str(link / path.parent.name / path.name), *mpicc[1:]]


def _is_ours_to_write(folder: Path) -> bool:
    """Returns whether libraries may be kept in a folder: no other user must be able to write to
    it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return False
    private = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return private and os.access(folder, os.W_OK | os.X_OK)


def compile_library(
    mpicc: list[str],
    library: Path,
    wait: Callable[[Any], None] = wait_without_bound,
    libraries: Sequence[str] = (),
) -> None:
    """Builds the library under a temporary name and renames it, so that processes that build it at
    the same time, on any node, all leave a complete library. libraries: to link with if mpicc is a
    plain compiler. Raises FanstoreError."""
    handle, fresh = tempfile.mkstemp(prefix=f"{library.name}.", dir=library.parent)
    os.close(handle)
    try:
        _run(mpicc, fresh, wait, libraries)
        os.chmod(fresh, 0o700)
        os.replace(fresh, library)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)


def _run(
    mpicc: list[str], output: str, wait: Callable[[Any], None], libraries: Sequence[str]
) -> None:
    sources = sorted(str(path) for path in (source_folder() / "transport").glob("*.c"))
    with tempfile.TemporaryFile("w+", errors="replace") as messages:
        try:
            command = [*mpicc, *_FLAGS, "-o", output, *sources, *libraries]
            compilation = _Compilation(command, messages)
        except OSError as error:
            raise FanstoreError(f"{mpicc[0]} does not run: {error}") from error
        try:
            wait(compilation)
        finally:
            code = compilation.end()
        messages.seek(0)
        _judge(mpicc, code, messages.read())


def _judge(mpicc: list[str], code: int | None, messages: str) -> None:
    """Raises FanstoreError, with a line of the compiler's messages, if a compilation failed."""
    if code is None:
        raise FanstoreError(f"{mpicc[0]} does not run: it took more than {_COMPILE_LIMIT_S} s")
    if code == _COMMAND_NOT_FOUND:
        raise FanstoreError(
            f"{mpicc[0]} finds no C compiler ({_last_line(messages)}); install gcc and the C "
            "library's headers (Debian, Ubuntu: gcc libc6-dev; RHEL, Fedora: gcc glibc-devel)"
        )
    if code != 0:
        raise FanstoreError(f"{mpicc[0]} cannot build the transport: {_complaint(messages)}")


def _complaint(output: str) -> str:
    """Returns the line of a compiler's output that names the error."""
    errors = [line for line in output.splitlines() if re.search("error|undefined reference", line)]
    return errors[0].strip() if errors else _last_line(output)


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["no message"])[-1].strip()


def describe() -> dict[str, str | None]:
    """Returns facts for people: `mpicc`, the `library_version` of mpi4py's MPI, the `library` if it
    exists, and the `problem` that a job of several ranks would meet."""
    answer: dict[str, str | None] = dict.fromkeys(
        ("mpicc", "library_version", "library", "problem")
    )
    try:
        version, own = _ask_version()
        answer["library_version"] = " ".join(version.strip().partition("\n")[0].split())
        library = brought_library(version)
        if library is None:
            mpicc = find_mpicc(own)
            answer["mpicc"] = mpicc[0]
            library = cache_folder() / library_name(version, mpicc)
        answer["library"] = str(library) if library.exists() else None
    except FanstoreError as error:
        answer["problem"] = str(error)
    return answer


def _ask_version() -> tuple[str, bool]:
    """Returns the version text of mpi4py's MPI, and whether it is this Python's own. Asks in
    another process, where MPI is not started."""
    command = [sys.executable, "-c", _ASK_VERSION]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FanstoreError(f"mpi4py cannot be asked for its MPI: {error}") from error
    if done.returncode != 0:
        raise FanstoreError(f"mpi4py does not load: {_last_line(done.stderr)}")
    version, _, own = done.stdout.rpartition("\f")
    return version, own.strip() == "1"
