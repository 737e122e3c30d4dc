"""Starts the command as a child of the wrapper, like the program `env`."""

from __future__ import annotations

import errno
import mmap
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence

from fanstore.exit_codes import NOT_EXECUTABLE, NOT_FOUND
from fanstore.node.process import die_with_parent

_SHELL = "/bin/sh"
_SCRIPT_HEAD_BYTES = 256  # the length of a script's first line, a limit of the kernel
_LOOKED_AT_BYTES = 1 << 26  # the bytes of a program that are searched


def _within_any(path: str, prefixes: Sequence[str]) -> bool:
    try:
        absolute = os.path.abspath(path)
    except FileNotFoundError:  # the current directory no longer exists
        return False
    return any(absolute.startswith(prefix + "/") for prefix in prefixes)


def _mentions(path: str, prefixes: Sequence[str]) -> bool:
    """Returns whether a program, or a script's first line, contains the path of a mount, for
    example as RPATH or interpreter."""
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
            script = data[:2] == b"#!"
            end = _SCRIPT_HEAD_BYTES if script else _LOOKED_AT_BYTES
            return any(data.find(os.fsencode(prefix), 0, end) >= 0 for prefix in prefixes)
    except (OSError, ValueError):  # the file is missing or empty
        return False


def _needs_mount(
    command: Sequence[str], environ: Mapping[str, str], prefixes: Sequence[str]
) -> bool:
    """Returns whether a command, its interpreter or one of its libraries may be in a mount."""
    name = command[0]
    if "/" in name and _within_any(name, prefixes):
        return True
    libraries = environ.get("LD_LIBRARY_PATH", "")
    return any(prefix in libraries for prefix in prefixes) or _mentions(
        _found(name, environ), prefixes
    )


def exec_command(
    command: Sequence[str], environ: Mapping[str, str], prefixes: Sequence[str]
) -> int:
    """Replaces this process by the command. Returns errno if that fails.

    If the command, or something that it needs, is under a mount prefix, starts it through a shell,
    which sees the mount. Runs a file without a magic number as a shell script, as execvp does."""
    name = command[0]
    if _needs_mount(command, environ, prefixes):
        command = [_SHELL, "-c", 'exec "$0" "$@"', *command]
    try:
        os.execvpe(command[0], list(command), dict(environ))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            return error.errno or errno.EIO
    try:
        os.execve(_SHELL, [_SHELL, _found(name, environ), *command[1:]], dict(environ))
    except OSError as error:
        return error.errno or errno.EIO


def _found(name: str, environ: Mapping[str, str]) -> str:
    """Returns the path of the command, found in PATH."""
    if "/" in name:
        return name
    for directory in os.get_exec_path(dict(environ)):
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    return name


def exit_code_of(error_number: int) -> int:
    """Returns the exit code for an exec that failed with this errno: the one that `env` uses."""
    missing = error_number in (errno.ENOENT, errno.ENOTDIR)
    return NOT_FOUND if missing else NOT_EXECUTABLE


def start_command(
    command: Sequence[str],
    environ: Mapping[str, str],
    prefixes: Sequence[str],
    mask: Iterable[int],
    announce: Callable[[int], None],
) -> tuple[int, int]:
    """Forks, and executes the command in the child. Returns (pid, 0), or (pid, errno) if the exec
    failed.

    The child calls `announce(pid)` before the exec. It has the signal mask `mask`, and gets SIGTERM
    if its parent is killed."""
    parent = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(parent, command, environ, prefixes, mask, announce, writer)
    os.close(writer)
    with open(reader, "rb") as stream:
        told = stream.read(4)
    return pid, int.from_bytes(told, "little")


def _child(
    parent: int,
    command: Sequence[str],
    environ: Mapping[str, str],
    prefixes: Sequence[str],
    mask: Iterable[int],
    announce: Callable[[int], None],
    writer: int,
) -> None:
    problem = errno.EIO
    try:
        die_with_parent(parent, signal.SIGTERM)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        announce(os.getpid())
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        problem = exec_command(command, environ, prefixes)
    finally:
        os.write(writer, problem.to_bytes(4, "little"))
        os._exit(exit_code_of(problem))
