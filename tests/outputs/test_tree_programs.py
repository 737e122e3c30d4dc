"""Programs of one node that share outputs: with each other, as on any file system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving import LIMIT_S, Stage, make_stage
from soak import sampled

PROCESSES = 6
ROUNDS = 40

# Each is run by PROCESSES processes at once in one directory, with its number; then `end` is.
COMMON = """
import contextlib, fcntl, multiprocessing, os, sqlite3, struct, sys, time

def counted(lock):
    '''Reads, waits and writes a number under a lock.'''
    for _ in range(ROUNDS):
        with lock():
            with open("count", "r+") as stream:
                found = int(stream.read())
                time.sleep(0.0005)
                stream.seek(0)
                stream.write(str(found + 1))

def begin():
    with open("count", "w") as stream:
        stream.write("0")
    open("lock", "w").close()

def end():
    print(open("count").read())
"""

FLOCK = """
@contextlib.contextmanager
def lock():
    with open("lock", "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield

def work(number):
    counted(lock)
"""

FCNTL = """
@contextlib.contextmanager
def lock():
    with open("lock", "a") as stream:
        fcntl.lockf(stream, fcntl.LOCK_EX)
        yield

def work(number):
    counted(lock)
"""

OFD = """
@contextlib.contextmanager
def lock():
    with open("lock", "a") as stream:
        fcntl.fcntl(stream, 38, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield

def work(number):
    counted(lock)
"""

PID_FILE = """
@contextlib.contextmanager
def lock():
    while True:
        with contextlib.suppress(FileExistsError):
            fd = os.open("held", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            break
        time.sleep(0.0002)
    os.write(fd, str(os.getpid()).encode())
    os.close(fd)
    assert open("held").read() == str(os.getpid())
    yield
    os.unlink("held")

def work(number):
    counted(lock)
"""

LINK_LOCK = """
@contextlib.contextmanager
def lock():
    own = f"own-{os.getpid()}"
    open(own, "w").close()
    while True:
        with contextlib.suppress(FileExistsError):
            os.link(own, "held")
            break
        time.sleep(0.0002)
    yield
    os.unlink("held")
    os.unlink(own)

def work(number):
    counted(lock)
"""

LOG = """
def begin():
    pass

def work(number):
    for index in range(ROUNDS):
        with open("log", "a") as stream:
            stream.write(f"{number} {index} " + "x" * 100 + chr(10))

def end():
    lines = open("log").read().splitlines()
    assert all(len(line.split()[2]) == 100 for line in lines)
    print(len(lines), len(set(lines)))
"""

SQLITE = """
def connected():
    return sqlite3.connect("base", timeout=60, isolation_level=None)

def begin():
    base = connected()
    print(base.execute("pragma journal_mode=JOURNAL").fetchone())
    base.execute("create table t (number int, at int)")
    base.close()

def work(number):
    base = connected()
    for index in range(ROUNDS):
        base.execute("insert into t values (?, ?)", (number, index))
    base.close()

def end():
    base = connected()
    print(base.execute("select count(*), count(distinct number) from t").fetchone(),
          base.execute("pragma integrity_check").fetchone())
"""

PROGRAMS = {
    "flock": FLOCK,
    "fcntl": FCNTL,
    "open file descriptions": OFD,
    "a file with a number": PID_FILE,
    "a hard link": LINK_LOCK,
    "one log": LOG,
    "sqlite": SQLITE.replace("JOURNAL", "delete"),
    "sqlite with a log": SQLITE.replace("JOURNAL", "wal"),
}

QUICK = ("flock", "fcntl", "a file with a number", "a hard link", "sqlite")

MAIN = """
os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])
begin()
started = []
for number in range(PROCESSES):
    pid = os.fork()
    if pid == 0:
        work(number)
        os._exit(0)
    started.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in started)
end()
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = make_stage(tmp_path_factory.mktemp("programs"))
    stage.dataset(stage.source(files={"input": b"input"}))
    return stage


@pytest.mark.parametrize("name", sampled(PROGRAMS, QUICK))
def test_processes_share_outputs(stage: Stage, tmp_path: Path, name: str) -> None:
    code = COMMON + PROGRAMS[name] + MAIN
    code = code.replace("PROCESSES", str(PROCESSES)).replace("ROUNDS", str(ROUNDS))
    plain = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plain")],
        capture_output=True, text=True, check=True, timeout=LIMIT_S,
    ).stdout  # fmt: skip
    out = ("--output-dir", str(tmp_path / "out"))
    command = [sys.executable, "-c", code, f"{stage.mount}/shared"]
    served = stage.run(stage.path / "data", *command, options=out)
    assert served.stdout == plain
    assert str(PROCESSES * ROUNDS) in plain
    there = {path.name for path in (tmp_path / "out/shared").iterdir()}
    assert there == {path.name for path in (tmp_path / "plain").iterdir()}
    assert os.listdir(tmp_path / "out") == ["shared"]


def test_programs_by_descriptor(stage: Stage) -> None:
    """An output that is a program is started by the path of its descriptor."""
    script = (
        f"cd {stage.mount}; printf '#!/bin/sh\\necho script \"$1\"\\n' >run; chmod +x run; "
        "exec 7<run; sh /proc/self/fd/7 one; ./run two; cp /bin/echo echo; exec 8<echo; "
        "/proc/self/fd/8 three; ./echo four"
    )
    out = ("--output-dir", str(stage.path / "out"))
    done = stage.run(stage.path / "data", "bash", "-c", script, options=out)
    assert done.stdout == "script one\nscript two\nthree\nfour\n", done.stderr
