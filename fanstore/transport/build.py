"""Finds the transport for the site's MPI. A wheel brings it for the two most common ABIs; for
others, and from a checkout, it is built once for each MPI library, and kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
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
from fanstore.errors import FanstoreError
from fanstore.user_cache import cache_folder

_FLAGS = (
    "-std=gnu11 -D_GNU_SOURCE -O2 -g -fPIC -shared -fvisibility=hidden -Wall -Wextra "
    "-Wno-missing-field-initializers -Wl,-z,defs -Wl,-z,relro"
).split()
_COMPILE_LIMIT_S = 120
_ASK_LIMIT_S = 60
_ASK_VERSION = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
    "from fanstore.transport.build import is_own_mpi; "
    "print(MPI.Get_library_version(), int(is_own_mpi()), sep='\\f')"
)
_COMMAND_NOT_FOUND = 127
# The names that MPI libraries give themselves, by their ABI; see the MPICH ABI compatibility
# initiative, and MPI_Get_library_version(3).
_ABIS = {
    "mpich": ("MPICH", "Intel(R) MPI", "MVAPICH"),
    "openmpi": ("Open MPI",),
}


class _Compilation:
    """A compiler at work, with the methods of an MPI request to wait for it."""

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
        """Ends the compiler if it still runs. Returns its exit code, None if it had to be ended."""
        code = self.process.poll()
        if code is None:
            self.process.kill()
            self.process.wait()
        return code


def wait_without_bound(request: Any) -> None:
    """Waits for an MPI request, whatever happens to the other ranks."""
    request.Wait()


def source_folder() -> Path:
    """Returns the folder csrc: in the installed package, else in the checkout in use."""
    installed = Path(__file__).resolve().parent / "csrc"
    checkout = Path(__file__).resolve().parent.parent.parent / "csrc"
    for folder in (installed, checkout):
        if (folder / "transport" / "mpi_transport.c").exists():
            return folder
    raise FanstoreError(f"the sources of the transport are missing ({installed})")


def is_own_mpi() -> bool:
    """Returns whether this process has loaded an MPI that is installed where its Python is, as that
    of PyPI's mpich is, and none of the site's."""
    prefix = os.path.join(os.path.realpath(sys.prefix), "")
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in stream if "/libmpi" in line}
    return any(path.startswith(prefix) for path in paths)


def find_mpicc(own: bool = False) -> list[str]:
    """Returns the compiler wrapper: $MPICC, else mpicc on PATH, else the one beside this Python; if
    MPI is this Python's `own`, that one comes before PATH."""
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
    """Returns the file name of the library that `mpicc` builds for the MPI `version`. Other sources
    give another name."""
    digest = hashlib.sha256(repr((mpicc, _FLAGS, version, platform.machine())).encode())
    folder = source_folder()
    machine = folder / "node" / "machine"
    interface = [machine / "queue.h", machine / "transport.h"]
    for path in [*sorted((folder / "transport").iterdir()), *interface]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"libfanstore_transport-{digest.hexdigest()[:24]}.so"


def brought_name(abi: str) -> str:
    """Returns the file name of the library that a wheel brings for an ABI."""
    return f"libfanstore_transport-{abi}.so"


def brought_library(version: str) -> Path | None:
    """Returns the library that the wheel brought for the MPI `version`; None if there is none, or
    $MPICC names a compiler to build with."""
    if os.environ.get("MPICC"):
        return None
    abis = [abi for abi, names in _ABIS.items() if any(name in version for name in names)]
    paths = [preload_path().with_name(brought_name(abi)) for abi in abis]
    return next((path for path in paths if path.exists()), None)


@contextlib.contextmanager
def built_library(version: str, wait: Callable[[Any], None] = wait_without_bound) -> Iterator[Path]:
    """Yields the library for the MPI `version`; load it before this context ends. Raises
    FanstoreError if it cannot be built. `wait` waits for the compiler: one rank may call it while
    others wait for that rank."""
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
    """Returns whether a shell script that leaves out the quotes takes a path for several words."""
    return len(path.split()) != 1


def _scratch(needs_link: bool) -> tempfile.TemporaryDirectory[str]:
    """Makes a folder for one use; if it is to hold a link, at a path without a space."""
    usual = tempfile.gettempdir()
    place = "/tmp" if needs_link and _is_split(usual) else usual
    return tempfile.TemporaryDirectory(prefix="fanstore-mpi-", dir=place)


def quotable(mpicc: list[str], folder: Path) -> list[str]:
    """Returns the compiler wrapper, through a link in `folder` if its path has a space. MPICH's
    wrapper is a script that finds its headers from its own path without quoting it. The library
    that it builds contains the link's path."""
    if not _is_split(mpicc[0]):
        return mpicc
    path = Path(os.path.abspath(mpicc[0]))
    prefix = path.parent.parent
    link = folder / f"mpi-{hashlib.sha256(os.fsencode(prefix)).hexdigest()[:16]}"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(prefix)
    return [str(link / path.parent.name / path.name), *mpicc[1:]]


def _is_ours_to_write(folder: Path) -> bool:
    """Returns whether libraries may be kept in a folder: others must not be able to write there."""
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
    """Builds the library under a temporary name and renames it: processes that build at the same
    time, on this node or another, all leave a whole library. libraries: to link with, if mpicc is
    no compiler wrapper. Raises FanstoreError."""
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
    """Raises FanstoreError if a compilation failed."""
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
    errors = [line for line in output.splitlines() if "error" in line]
    return errors[0].strip() if errors else _last_line(output)


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["no message"])[-1].strip()


def describe() -> dict[str, str | None]:
    """Returns, for people: `mpicc`, the `library_version` of mpi4py's MPI, the `library` if it is
    there already, and the `problem` that several ranks would meet."""
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
    """Returns the version text of mpi4py's MPI, and whether it is this Python's own. Asks in a
    process that does not start MPI."""
    command = [sys.executable, "-c", _ASK_VERSION]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FanstoreError(f"mpi4py cannot be asked for its MPI: {error}") from error
    if done.returncode != 0:
        raise FanstoreError(f"mpi4py does not load: {_last_line(done.stderr)}")
    version, _, own = done.stdout.rpartition("\f")
    return version, own.strip() == "1"
