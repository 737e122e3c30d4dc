"""Run one command on both sides and compare what can be seen of it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from arena import Arena, Side, as_user

TIMEOUT_S = 90
Normaliser = Callable[[bytes], bytes]


def substitution(pattern: bytes, replacement: bytes) -> Normaliser:
    """Replaces in every line what two file systems may say differently."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda output: compiled.sub(replacement, output)


# `ls -l`: the blocks of a directory's files, and the size of a directory.
LS_SIZES: tuple[Normaliser, ...] = (
    substitution(rb"^total \d+$", b"total N"),
    substitution(rb"^(d\S+\s+\d+\s+\S+\s+\S+)\s+\d+ ", rb"\1 N "),
)


@dataclass(frozen=True)
class Case:
    """A shell command with $T (the tree), $W (an empty directory, the cwd) and $O (outside links).

    `exit` is what the plain side must answer; `quiet` says that it prints and writes nothing;
    `times` compares the modification times under $W too; `keep_stderr` compares stderr.
    """

    name: str
    command: str
    exit: int = 0
    needs: tuple[str, ...] = ()
    normalise: tuple[Normaliser, ...] = ()
    quiet: bool = False
    times: bool = False
    keep_stderr: bool = True
    shell: str = "bash"

    def __str__(self) -> str:
        return self.name


@dataclass
class Outcome:
    exit: int
    stdout: bytes
    stderr: bytes
    written: dict[str, tuple[object, ...]] = field(default_factory=dict)


def run_case(arena: Arena, case: Case, codec: str) -> None:
    """Skips, passes or fails the test that calls it."""
    for program in (case.shell, *case.needs):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    compare(
        arena,
        [case.shell, "-c", case.command],
        codec,
        exit=case.exit,
        normalise=case.normalise,
        quiet=case.quiet,
        times=case.times,
        keep_stderr=case.keep_stderr,
    )


def compare(
    arena: Arena,
    argv: Sequence[str],
    codec: str,
    *,
    exit: int = 0,
    normalise: Sequence[Normaliser] = (),
    quiet: bool = False,
    times: bool = False,
    keep_stderr: bool = True,
    sort_stderr: bool = False,
    read_only: bool = False,
    user: int | None = None,
) -> None:
    """Asserts that `argv` does the same on the plain side and under FanStore."""
    sides = (arena.plain, arena.mounted(codec))
    with ThreadPoolExecutor(2) as pool:
        plain, served = pool.map(
            lambda side: run_side(arena, side, argv, times=times, read_only=read_only, user=user),
            sides,
        )
    for outcome in (plain, served):
        for change in normalise:
            outcome.stdout = change(outcome.stdout)
        if not keep_stderr:
            outcome.stderr = b""
        if sort_stderr:
            outcome.stderr = b"\n".join(sorted(outcome.stderr.split(b"\n")))
    assert plain.exit == exit, f"the case itself is wrong: {plain}"
    if not quiet:
        assert plain.stdout or plain.stderr or plain.written, "the case shows nothing"
    assert served.exit == plain.exit, f"exit {served.exit}\n{text(served)}"
    assert text_lines(served.stderr) == text_lines(plain.stderr)
    assert text_lines(served.stdout) == text_lines(plain.stdout)
    assert served.written == plain.written


def run_side(
    arena: Arena,
    side: Side,
    argv: Sequence[str],
    *,
    times: bool = False,
    read_only: bool = False,
    user: int | None = None,
) -> Outcome:
    """One side of a case. `read_only` binds the plain tree read-only over itself."""
    scratch = arena.scratch(side)
    argv = [*as_user(user), *argv]
    if read_only and side.real:
        argv = ["unshare", "-m", "sh", "-c", READ_ONLY_BIND, "sh", *argv]
    env = {**side.env, "T": str(side.root), "W": str(scratch), "O": str(side.outside)}
    outcome = finish(
        subprocess.Popen(
            argv,
            cwd=scratch,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    )
    outcome.written = snapshot(
        scratch, times=times, hide=lambda text: hide_paths(text, side, scratch)
    )
    outcome.stdout = hide_paths(outcome.stdout, side, scratch)
    outcome.stderr = hide_paths(outcome.stderr, side, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    return outcome


READ_ONLY_BIND = 'mount --bind "$T" "$T" && mount -o remount,ro,bind "$T" && exec "$@"'


def finish(process: subprocess.Popen[bytes]) -> Outcome:
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        stderr += b"\n[killed: it ran longer than the limit]"
    return Outcome(process.returncode, stdout, stderr)


def hide_paths(output: bytes, side: Side, scratch: Path) -> bytes:
    for path, name in ((scratch, b"{W}"), (side.outside, b"{O}"), (side.root, b"{T}")):
        output = output.replace(os.fsencode(path), name)
    return output


def snapshot(
    root: Path, *, times: bool, hide: Callable[[bytes], bytes] = lambda text: text
) -> dict[str, tuple[object, ...]]:
    """What lies under `root`, without following links: enough to tell two trees apart."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = describe(path, times, hide)
    return found


def describe(path: str, times: bool, hide: Callable[[bytes], bytes]) -> tuple[object, ...]:
    status = os.lstat(path)
    owner = (status.st_uid, status.st_gid, oct(status.st_mode))
    when = (status.st_mtime_ns,) if times else ()
    if stat.S_ISLNK(status.st_mode):
        return (*owner, *when, hide(os.fsencode(os.readlink(path))))
    if not stat.S_ISREG(status.st_mode):
        return (*owner, *when)
    with open(path, "rb") as file:
        content = hide(file.read())
    return (*owner, *when, status.st_nlink, len(content), hashlib.sha256(content).hexdigest())


def text(outcome: Outcome) -> str:
    return f"stdout: {text_lines(outcome.stdout)}\nstderr: {text_lines(outcome.stderr)}"


def text_lines(output: bytes) -> list[str]:
    return output.decode("utf-8", "backslashreplace").split("\n")
