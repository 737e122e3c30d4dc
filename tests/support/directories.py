"""Jobs that read a directory as it is, and what a plain program sees of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from serving import LIMIT_S, Stage, wait_for

# Prints each entry below a directory: attributes and content.
DESCRIBE = r"""
import hashlib, json, os, sys
found = []
top = os.fsencode(sys.argv[1])
for folder, names, files in os.walk(top):
    for name in sorted(names + files):
        path = os.path.join(folder, name)
        st = os.lstat(path)
        row = [os.fsdecode(os.path.relpath(path, top)), st.st_mode, st.st_size, st.st_mtime_ns]
        if os.path.islink(path):
            row.append(os.fsdecode(os.readlink(path)))
        elif os.path.isdir(path):
            row[2] = 0
        else:
            with open(path, "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                row += [st.st_nlink, hashlib.md5(stream.read()).hexdigest(), size]
        found.append(row)
json.dump(sorted(found), sys.stdout)
"""


def old(source: Path) -> None:
    """Waits until no file is so new that it could change again without a new time."""
    newest = max(p.lstat().st_ctime_ns for p in (source, *source.rglob("*")))
    probe = source.parent / "probe"

    def is_past() -> bool:
        probe.write_bytes(b"")
        return probe.stat().st_ctime_ns > newest + 30_000_000

    wait_for(is_past, "a later time of the file system")


def run(
    stage: Stage,
    source: Path,
    *command: str,
    options: tuple[str, ...] = (),
    code: int = 0,
    limit_s: float = LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """`fanstore run` of a command over a directory as it is."""
    words = ("run", str(source), "--output-dir", str(stage.path / "out"), *options, "--", *command)
    cache = str(stage.path / "cache")
    return stage.call(*words, code=code, limit_s=limit_s, XDG_CACHE_HOME=cache)


def describe(source: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", DESCRIBE, str(source))


def seen_plainly(source: Path) -> list[object]:
    done = subprocess.run(describe(source), capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def run_while(
    stage: Stage, source: Path, change: Callable[[], object], *command: str
) -> tuple[str, str]:
    """Runs a command that meets `change` (MEET), which is called outside of the job. Returns what
    the command prints after that, and the job's messages."""
    where = [str(source), "--stage", "lazy", "--output-dir", str(stage.path / "out")]
    cache = str(stage.path / "cache")
    with stage.running("run", *where, "--", *command, XDG_CACHE_HOME=cache) as job:
        assert job.stdout is not None
        pid = int(job.stdout.readline())
        change()
        os.kill(pid, signal.SIGUSR1)
        return job.communicate(timeout=60)


# Prints its number, and waits for a signal.
MEET = """
import os, signal, sys
os.chdir(sys.argv[1])
def meet():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    print(os.getpid(), flush=True)
    signal.sigwait([signal.SIGUSR1])
"""
