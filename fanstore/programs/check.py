"""Decides which mode of `fanstore run` a program needs, and why: from its ELF file, or from the
first line of a script as execve(2) and env(1) read it. Also checks whether this machine allows the
redirection of system calls that libraries make themselves."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import BinaryIO

from fanstore.exit_codes import NOT_EXECUTABLE, NOT_FOUND
from fanstore.programs import elf

HEAD_BYTES = 256  # of a script's first line, which the kernel reads up to here
SCRIPTS_MAX = 5  # the longest chain of scripts that are each other's interpreter


def interpreter_of(head: bytes) -> tuple[str, str] | None:
    """Returns a script's interpreter, and its one argument or "", from the script's first bytes;
    None if it names none."""
    line = head[2:HEAD_BYTES].partition(b"\n")[0].partition(b"\0")[0].strip(b" \t\r")
    if not line:
        return None
    name, _, argument = line.replace(b"\t", b" ").partition(b" ")
    return os.fsdecode(name), os.fsdecode(argument.strip(b" \t"))


def run_by_env(argument: str) -> str | None:
    """Returns the program that `env ARGUMENT SCRIPT` starts; None if unknown. The kernel passes
    everything behind env as one argument, which only env -S splits."""
    split = next((o for o in ("-S", "--split-string=", "-vS") if argument.startswith(o)), None)
    if split is None:
        return argument if argument and argument[0] != "-" and "=" not in argument else None
    try:
        words = shlex.split(argument[len(split) :])
    except ValueError:
        return None
    while words and (words[0].startswith("-") or "=" in words[0]):
        takes_value = words[0] in ("-u", "--unset", "-C", "--chdir")
        words = words[1 + takes_value :]
    return words[0] if words else None


_SHELL = "/bin/sh"
_IO_SYMBOLS = ("io_uring_setup", "io_uring_enter", "io_uring_queue_init")


class Mode(Enum):
    """How a program can see the mounts. `fanstore check` prints the values."""

    PRELOAD = "preload"
    TRAP = "--trap"
    NEITHER = "neither"
    UNUSABLE = "cannot be started"


@dataclass
class Verdict:
    """The result for a program. `path`: the file that was found; `through`: the interpreters of a
    script, of which the last one decides. exit_code: 0 if the preload library works, 3 if --trap
    does, 4 if nothing does, 126 or 127 if the program cannot be started at all."""

    program: str
    path: str | None = None
    through: list[str] = field(default_factory=list)
    mode: Mode = Mode.PRELOAD
    reasons: list[str] = field(default_factory=list)
    exit_code: int = 0

    def settle(self, mode: Mode, reason: str, exit_code: int | None = None) -> Verdict:
        """Adds a mode and a reason for it. Keeps only the worst mode and the reasons for it.
        Returns self."""
        order = list(Mode)
        if order.index(mode) > order.index(self.mode):
            self.mode, self.reasons = mode, []
        if mode is self.mode:
            self.reasons.append(reason)
        codes = {Mode.PRELOAD: 0, Mode.TRAP: 3, Mode.NEITHER: 4, Mode.UNUSABLE: NOT_EXECUTABLE}
        self.exit_code = codes[self.mode] if exit_code is None else exit_code
        return self


def check(program: str, preload_needs: tuple[int, int] | None = None) -> Verdict:
    """Examines a program, given by a name in PATH or by a path. preload_needs: the version of glibc
    that the preload library was built for."""
    verdict = Verdict(program)
    verdict.path = find(program)
    if verdict.path is None:
        where = "no such file" if "/" in program else "not found in PATH"
        return verdict.settle(Mode.UNUSABLE, where, NOT_FOUND)
    return _follow(verdict, verdict.path, preload_needs)


def find(program: str) -> str | None:
    """Returns the path of a program: a given path unchanged, or the file that PATH leads to."""
    if "/" in program:
        return program if os.path.lexists(program) else None
    return shutil.which(program) if program else None


def _follow(verdict: Verdict, path: str, preload_needs: tuple[int, int] | None) -> Verdict:
    """Follows the interpreters of a script to the program that the kernel runs in the end."""
    for _ in range(SCRIPTS_MAX + 2):
        problem = _problem(path)
        if problem is not None:
            missing = problem == os.strerror(errno.ENOENT)
            text = f"{path}: {problem}" if verdict.through else problem
            return verdict.settle(Mode.UNUSABLE, text, NOT_FOUND if missing else None)
        try:
            with open(path, "rb") as file:
                following = _examine(verdict, path, file, preload_needs)
        except OSError as error:
            return verdict.settle(Mode.NEITHER, f"{path}: cannot be read: {error.strerror}")
        if following is None:
            return verdict
        verdict.through.append(following)
        path = following
    return verdict.settle(Mode.UNUSABLE, "its `#!` lines lead from script to script without end")


def _problem(path: str) -> str | None:
    """Returns why execve would refuse a file for its type or permissions; None if it would not."""
    try:
        status = os.stat(path)
    except OSError as error:
        return error.strerror
    if stat.S_ISDIR(status.st_mode):
        return "is a directory"
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if status.st_size == 0:
        return "is empty"
    executable = os.access(path, os.X_OK) and status.st_mode & 0o111
    return None if executable else "is not executable"


def _examine(
    verdict: Verdict, path: str, file: BinaryIO, preload_needs: tuple[int, int] | None
) -> str | None:
    """Decides the verdict for a file, or returns the program that must be examined instead."""
    head = file.read(256)
    if head[:4] == elf.MAGIC:
        try:
            _judge(verdict, path, elf.read(file), preload_needs)
        except elf.Damaged as damage:
            verdict.settle(Mode.UNUSABLE, f"{path}: {damage}")
        return None
    if head[:2] == b"#!":
        return _interpreter(verdict, head)
    if b"\0" in head:
        verdict.settle(Mode.UNUSABLE, f"{path}: neither an ELF file nor a script")
        return None
    return _SHELL  # execvp and shells run it as a shell script


def _interpreter(verdict: Verdict, head: bytes) -> str | None:
    named = interpreter_of(head)
    if named is None:
        verdict.settle(Mode.UNUSABLE, "its `#!` line names no interpreter")
        return None
    interpreter, argument = named
    if os.path.basename(interpreter) != "env" or _problem(interpreter) is not None:
        return interpreter
    program = run_by_env(argument)
    if program is None:
        return interpreter
    verdict.through.append(interpreter)
    found = find(program)
    if found is None:
        verdict.settle(Mode.UNUSABLE, f"env finds no {program} in PATH", NOT_FOUND)
    return found


def _judge(
    verdict: Verdict, path: str, program: elf.Elf, preload_needs: tuple[int, int] | None
) -> None:
    for mode, reason in _reasons(path, program, preload_needs):
        verdict.settle(mode, reason)
    if verdict.mode is Mode.PRELOAD:
        verdict.settle(Mode.PRELOAD, "linked with glibc: its loader loads the library")


def _reasons(
    path: str, program: elf.Elf, preload_needs: tuple[int, int] | None
) -> Iterator[tuple[Mode, str]]:
    """Yields each reason against the preload library, with the mode that the program needs."""
    if program.machine != platform.machine() or program.bits != 64:
        kind = f"for {program.machine}, {program.bits} bits"
        yield Mode.NEITHER, f"{kind}: FanStore here is for {platform.machine()}, 64 bits"
        return
    if program.interpreter is None:
        yield from _without_loader(path, program)
        return
    yield from _with_loader(program, preload_needs)
    if _gains_privileges(path):
        yield (
            Mode.TRAP,
            (
                "gains privileges (set-user-ID, set-group-ID or file capabilities), so its loader "
                "takes no preload; with --trap it starts without them"
            ),
        )
    if program.is_go:
        yield Mode.TRAP, "written in Go, whose runtime makes system calls by itself"
    yield from _asynchronous(program)


def _without_loader(path: str, program: elf.Elf) -> Iterator[tuple[Mode, str]]:
    if not program.executable and os.path.basename(path).startswith("ld"):
        yield Mode.PRELOAD, "glibc's loader itself"
        return
    if not program.executable and program.has_dynamic and ".so" in os.path.basename(path):
        yield Mode.UNUSABLE, "a shared library, and no program"
        return
    kind = "position-independent, " if program.has_dynamic else ""
    go = ", written in Go" if program.is_go else ""
    yield Mode.TRAP, f"{kind}statically linked{go}: no loader brings the library in"


def _with_loader(
    program: elf.Elf, preload_needs: tuple[int, int] | None
) -> Iterator[tuple[Mode, str]]:
    loader = program.interpreter or ""
    if not os.path.exists(loader):
        yield Mode.UNUSABLE, f"its loader {loader} is not there"
        return
    name = os.path.basename(loader)
    if name.startswith("ld-musl"):
        yield Mode.TRAP, f"linked with musl ({loader}), and the library needs glibc"
        return
    if not name.startswith("ld-linux"):
        yield Mode.TRAP, f"its loader {loader} is not glibc's"
        return
    there = _glibc_of(loader)
    if there is None:
        return
    if program.glibc is not None and program.glibc > there:
        yield Mode.UNUSABLE, f"needs glibc {_dotted(program.glibc)}; {_dotted(there)} is here"
    elif preload_needs is not None and there < preload_needs:
        yield (
            Mode.TRAP,
            (
                f"its glibc is {_dotted(there)}, and the library was built for "
                f"{_dotted(preload_needs)} and newer"
            ),
        )


def _asynchronous(program: elf.Elf) -> Iterator[tuple[Mode, str]]:
    if any(each.startswith("liburing.so") for each in program.needed):
        return  # the preload library answers liburing's functions, as it does libaio's
    for symbol in _IO_SYMBOLS:
        if program.names(symbol):
            yield Mode.TRAP, f"has {symbol} in it: its rings take files past any library"
            return


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def glibc_needed(path: str) -> tuple[int, int] | None:
    """Returns the newest version of glibc that an ELF file asks for; None if unknown."""
    try:
        with open(path, "rb") as file:
            return elf.read(file).glibc
    except (OSError, elf.Damaged):
        return None


def _glibc_of(loader: str) -> tuple[int, int] | None:
    """Returns the version of glibc that a dynamic loader belongs to: that of the libc in its
    directory."""
    beside = os.path.join(os.path.dirname(os.path.realpath(loader)), "libc.so.6")
    return glibc_needed(beside)


def _gains_privileges(path: str) -> bool:
    """Returns whether the program runs with more privileges than this process's user has
    (set-user-ID, capabilities)."""
    status = os.stat(path)
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        return False
    if status.st_mode & stat.S_ISUID and status.st_uid != os.getuid():
        return True
    if status.st_mode & stat.S_ISGID and status.st_gid != os.getgid():
        return True
    try:
        return bool(os.getxattr(path, "security.capability")) and os.getuid() != 0
    except OSError:
        return False


def entry_hint(program: str) -> str | None:
    """Returns a hint for the user about a command that cannot see a mount without --trap; None if
    it can."""
    verdict = check(program)
    if verdict.mode is Mode.TRAP:
        return f"{program} needs --trap to see the mount: {verdict.reasons[0]}"
    if verdict.mode is Mode.NEITHER:
        return f"{program} will not see the mount: {verdict.reasons[0]}"
    return None


_FAILED = ctypes.c_void_p(-1).value


def problem() -> str | None:
    """Returns why the code of a process like this one cannot be changed at run time; None if it
    can."""
    if platform.machine() != "x86_64":
        return f"not redirected on {platform.machine()}"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    with open(sys.executable, "rb") as code:
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        at = libc.mmap(None, mmap.PAGESIZE, protection, mmap.MAP_PRIVATE, code.fileno(), 0)
    if at == _FAILED:
        return f"code cannot be mapped ({os.strerror(ctypes.get_errno())})"
    page = ctypes.c_void_p(at), ctypes.c_size_t(mmap.PAGESIZE)
    refused = libc.mprotect(*page, protection | mmap.PROT_WRITE) != 0
    reason = os.strerror(ctypes.get_errno())
    libc.munmap(*page)
    return f"the system forbids to change loaded code ({reason})" if refused else None
