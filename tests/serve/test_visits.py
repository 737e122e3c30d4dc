"""Jobs of a user on one node that serve the same dataset use one block cache. Whatever happens to
the job that has it, the others read the right bytes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import inprocess
import pytest
from serving import LIMIT_S, Stage, daemon_of, make_stage, wait_for
from soak import left, sampled

from fanstore.messages.channel import MESSAGE_MAX_BYTES, Channel, connect, listen
from fanstore.messages.figures import NodeFigures
from fanstore.messages.message import fields_of
from fanstore.messages.requests import BeginSession, BeginVisit, Dismissed
from fanstore.node import visit
from fanstore.staging.base import StagingFolder

COUNT = 12
FILE_BYTES = 2_000_000
DATASET_BYTES = COUNT * FILE_BYTES
NAMES = [f"f{number:02}" for number in range(COUNT)]

# Reads the files whose names come in a line, and tells their checksums. Leaves an output.
READER = """
import hashlib, os, sys
root = os.environ["FANSTORE_MOUNT_PREFIX"]
def digest(name):
    with open(os.path.join(root, name), "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()
with open(os.path.join(root, "output"), "w") as stream:
    stream.write(sys.argv[1])
for line in sys.stdin:
    print(" ".join(map(digest, line.split())), flush=True)
"""


class Job:
    """A `fanstore run` of READER with outputs of its own."""

    def __init__(self, stage: Stage, dataset: Path, name: str, *options: str) -> None:
        self.stage, self.outputs = stage, stage.path / f"outputs of {name}"
        where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--local-bytes", "0"]
        where += ["--stage", "plan", "--output-dir", str(self.outputs), *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fanstore", "run", *where, "--", sys.executable, "-c", READER,
             name],
            env=stage.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        wait_for(lambda: daemon_of(self.process.pid), "the daemon")
        self.daemon = daemon_of(self.process.pid)

    def reads(self, names: list[str]) -> None:
        """Reads files, which are as the plain ones."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(names) + "\n")
        self.process.stdin.flush()
        plain = [(self.stage.path / "plain" / name).read_bytes() for name in names]
        expected = [hashlib.sha256(content).hexdigest() for content in plain]
        assert self.process.stdout.readline().split() == expected

    @property
    def directory(self) -> Path:
        """The job's directory on the local disk."""
        (found,) = [
            path.parent for path in self.stage.local.rglob("job.json")
            if json.loads(path.read_bytes())["daemon_pid"] == self.daemon
        ]  # fmt: skip
        return found

    def visit(self) -> Channel:
        """Makes this process a guest."""
        channel = connect(str(self.directory), LIMIT_S)
        channel.send(BeginVisit(cache_bytes=0))
        assert channel.receive_line() is not None
        return channel

    def status(self) -> dict[str, Any]:
        """The job's status."""
        local = ("--local-dir", self.stage.local)
        found = inprocess.call("status", "--json", *local, "--job", self.directory.name)
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    def warm_up(self) -> None:
        """Brings all files near."""
        job, mount = self.status()["job_id"], str(self.stage.mount)
        self.stage.call("warmup", "--local-dir", str(self.stage.local), "--job", job, mount)

    def shared_bytes(self) -> int:
        """How much the job's daemon and its programs have read from the shared file system."""
        status = self.status()
        return int(status["node"]["shared_bytes"] + status["counters"]["shared_bytes"])

    def end(self, code: int = 0) -> str:
        """Ends the job. Returns its standard error."""
        _, stderr = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == code, stderr
        assert (self.outputs / "output").exists()
        return stderr


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.source(files={name: os.urandom(FILE_BYTES) for name in NAMES})
    return stage


@pytest.fixture(params=["packed", left("listed")])
def start(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Callable[..., Job]]:
    plain, jobs = stage.path / "plain", list[Job]()
    dataset = stage.dataset(plain) if request.param == "packed" else plain

    def make(name: str, *options: str) -> Job:
        jobs.append(Job(stage, dataset, name, *options))
        jobs[-1].reads(NAMES[:1])
        return jobs[-1]

    yield make
    for job in jobs:
        for pid in (job.daemon, job.process.pid) if job.process.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.process.communicate(timeout=LIMIT_S)


def test_each_byte_is_read_once_for_all_jobs(start: Callable[..., Job]) -> None:
    jobs = [start(name) for name in ("one", "two", "three")]
    for turn in range(3):
        for job in jobs[turn:] + jobs[:turn]:
            job.reads(NAMES[::-1])
    assert [job.shared_bytes() for job in jobs] == [DATASET_BYTES, 0, 0]
    said = [job.end() for job in reversed(jobs)][::-1]
    assert "other jobs read through this job's block cache: 2 jobs" in said[0]
    assert all("programs read through the block cache of job" in text for text in said[1:])
    assert [(job.outputs / "output").read_text() for job in jobs] == ["one", "two", "three"]


@pytest.mark.parametrize("options", [("--cache-policy", "lru"), ("--stage", "lazy")])
def test_jobs_with_other_settings_read_for_themselves(
    start: Callable[..., Job], options: tuple[str, ...]
) -> None:
    jobs = [start("one"), start("two", *options)]
    for job in jobs:
        job.reads(NAMES)
    assert [job.shared_bytes() for job in jobs] == [DATASET_BYTES, DATASET_BYTES]


def test_the_cache_is_as_large_as_those_of_all_jobs(start: Callable[..., Job]) -> None:
    """A cache of its own has no room for the dataset; two of them have."""
    room = ("--cache-bytes", str(DATASET_BYTES * 2 // 3), "--cache-policy", "minio")
    jobs = [start(name, *room) for name in ("one", "two")]
    for _ in range(2):
        for job in jobs:
            job.reads(NAMES)
    assert sum(job.shared_bytes() for job in jobs) == DATASET_BYTES


class EmptyCache:
    """A core whose cache nothing fills."""

    def __init__(self) -> None:
        self.granted = 0
        self.cache_fd = memory_file()

    def grow(self, content_bytes: int) -> None:
        self.granted += content_bytes

    def stats(self) -> NodeFigures:
        figures: dict[str, Any] = dict.fromkeys(fields_of(NodeFigures), 0)
        return NodeFigures(**{**figures, "cache_bytes": self.granted})


def test_memory_is_granted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "left_bytes", lambda: 1000)
    core: Any = EmptyCache()
    lock: Any = object()
    cache = visit.SharedCache(core, 500, lock, print)
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as sockets:
        monkeypatch.setattr(cache, "_selector", selector, raising=False)
        for _ in range(5):
            pair = [sockets.enter_context(each) for each in socket.socketpair()]
            cache.receive(Channel(pair[0]), BeginVisit(cache_bytes=1 << 40))
    assert 500 <= core.granted <= 1000


def test_a_small_cache_has_sessions_for_the_programs_of_guests(start: Callable[..., Job]) -> None:
    small = ("--cache-bytes", str(10 << 20))
    guest = [start(name, *small) for name in ("host", "guest")][1]
    with contextlib.ExitStack() as programs:
        for number in range(300):
            program = programs.enter_context(contextlib.closing(connect(str(guest.directory))))
            program.send(BeginSession())
            line, cache_fd = program.receive_line_with_fd()
            assert cache_fd is not None, f"{number}: {line!r}"
            os.close(cache_fd)


def test_a_guest_brings_files_near(start: Callable[..., Job]) -> None:
    host, guest = start("host"), start("guest")
    guest.warm_up()
    assert (host.shared_bytes(), guest.shared_bytes()) == (DATASET_BYTES, 0)


@pytest.mark.parametrize("fate", sampled(["ends", "is killed", "is stopped"], ["is killed"]))
def test_jobs_go_on_whatever_happens_to_the_host(start: Callable[..., Job], fate: str) -> None:
    host, second, third = (start(name) for name in ("host", "second", "third"))
    if fate == "ends":
        host.end()
    else:
        os.kill(host.daemon, signal.SIGKILL if fate == "is killed" else signal.SIGSTOP)
    for job in (second, third, second, third):  # at first the host is asked, in vain
        job.reads(NAMES)
    before = second.shared_bytes() + third.shared_bytes()
    late = start("late")
    for job in (late, second, third):
        job.reads(NAMES)
    assert late.shared_bytes() == 0
    assert second.shared_bytes() + third.shared_bytes() == before
    if fate == "is stopped":
        os.kill(host.daemon, signal.SIGCONT)
        host.reads(NAMES)
    for job in (second, third, late, *([] if fate == "ends" else [host])):
        job.end(code=125 if job is host and fate == "is killed" else 0)


def test_a_guest_answers_while_no_host_can_be_found(start: Callable[..., Job]) -> None:
    host, second, third = (start(name) for name in ("host", "second", "third"))
    with StagingFolder(str(host.stage.local)).locked():
        os.kill(host.daemon, signal.SIGKILL)
        for job in (second, third, second):
            job.reads(NAMES)
            assert job.shared_bytes() >= 0  # it answers
    (lock,) = host.stage.local.rglob("host-*")
    nexts = {str(job.directory) for job in (second, third)}
    wait_for(lambda: lock.read_text() in nexts, "the next host")
    assert start("late").shared_bytes() == 0


@pytest.mark.parametrize("fate", ["ends", "is killed"])
def test_the_memory_of_a_host_ends_with_it(start: Callable[..., Job], fate: str) -> None:
    """Though a program, which this one is, keeps its session of the host and reads nothing."""
    host, guest = start("host"), start("guest")
    guest.reads(NAMES)
    program = connect(str(guest.directory))
    program.send(BeginSession())
    _, cache_fd = program.receive_line_with_fd()
    assert cache_fd is not None and os.fstat(cache_fd).st_blocks * 512 > DATASET_BYTES
    if fate == "ends":
        host.end()
    else:
        os.kill(host.daemon, signal.SIGKILL)
    wait_for(lambda: os.fstat(cache_fd).st_blocks * 512 < FILE_BYTES, "the memory is free")
    guest.reads(NAMES)
    os.close(cache_fd)
    program.close()


def test_a_killed_guest_leaves_nothing_behind(start: Callable[..., Job]) -> None:
    host, guest = start("host"), start("guest")
    for pid in (guest.daemon, guest.process.pid):
        os.kill(pid, signal.SIGKILL)
    guest.process.communicate(timeout=LIMIT_S)
    host.reads(NAMES)
    late = start("late")
    late.reads(NAMES)
    assert (host.shared_bytes(), late.shared_bytes()) == (DATASET_BYTES, 0)
    host.end()
    late.end()


def memory_file(content: bytes = b"", length: int = 0) -> int:
    fd = os.memfd_create("order")
    os.write(fd, content)
    os.ftruncate(fd, max(length, len(content)))
    return fd


def files_of(pid: int, fds: Iterable[int | str]) -> Iterator[str]:
    for fd in fds:
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(f"/proc/{pid}/fd/{fd}")


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def told(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": kind, **fields}).encode() + b"\n"


ORDER = {"order": 1, "mount": 0, "behind": 0}
BEGIN = told("begin_order", **ORDER)


def hostile() -> Iterator[tuple[str, bytes, list[int]]]:
    """What no guest sends, with descriptors."""
    for name in ORDER:
        odd: list[object] = ["1", None, 1.5, True, [1], {}]
        for value in odd + [-1, 1 << 70, 1] * (name == "mount"):
            changed = told("begin_order", **{**ORDER, name: value})
            yield f"{name} is {value}", changed, [memory_file(number(1))]
        left_out = {each: 1 for each in ORDER if each != name}
        yield f"no {name}", told("begin_order", **left_out), [memory_file(number(1))]
    for field in ("position", "read"):
        for count in (-1, 1 << 64, 10**100):
            passed = told("pass_order", **{"order": 1, "position": 0, "read": 0, field: count})
            yield f"{field} is {count}", BEGIN + passed, [memory_file(number(1))]
    yield "no such order", told("pass_order", order=7, position=0, read=0), []
    yield "an end without a begin", told("end_order", order=7), []
    yield "an order begins twice", BEGIN, [memory_file(number(1)), memory_file(number(1))]
    for record in (1 << 32, 1 << 60, (1 << 64) - 1):
        yield f"record {record}", BEGIN, [memory_file(number(record))]
    yield "a file of holes", BEGIN, [memory_file(length=1 << 45)]
    yield "a file of few holes", BEGIN, [memory_file(number(1), 1 << 20)]
    yield "a file on disk", BEGIN, [os.open(__file__, os.O_RDONLY)]
    yield "a directory", BEGIN, [os.open("/", os.O_RDONLY)]
    yield "no descriptor", BEGIN, []
    yield "a program without its descriptor", told("visitor"), []
    yield "a program that is a file", told("visitor"), [memory_file()]
    yield "descriptors without messages", b" ", [memory_file() for _ in range(9)]
    yield "no JSON", b"{\n", []
    yield "a list", b"[]\n", []
    yield "deep JSON", b"[" * 100_000 + b"\n", []
    yield "deep fields", b'{"order":' * 100_000 + b"\n", []
    yield (
        "a number of a million digits",
        b'{"type": "end_order", "order": 1' + b"0" * 10**6 + b"}\n",
        [],
    )
    yield "no end of line", b" " * (MESSAGE_MAX_BYTES + (1 << 20)), []


def test_the_host_lives_whatever_a_guest_sends(start: Callable[..., Job]) -> None:
    host, guest = start("host"), start("guest")
    sent = set[str]()
    for name, line, fds in hostile():
        sent |= set(files_of(os.getpid(), fds))
        channel = host.visit()
        with contextlib.suppress(ConnectionError):  # dismissed before the end
            for fd in fds[:-1]:
                socket.send_fds(channel.socket, [line], [fd])
            if fds:
                line = line[socket.send_fds(channel.socket, [line], fds[-1:]) :]
            channel.socket.sendall(line)
        heard = b"" if (first := channel.receive_line()) is None else first
        assert b"dismissed" in heard or not heard, f"{name}: {heard!r}"
        assert channel.read_lines() is None, f"{name}: is not dismissed"
        channel.close()
        for fd in fds:
            os.close(fd)
    for job in (host, guest):
        job.reads(NAMES)
    assert guest.shared_bytes() == 0
    assert not sent & set(files_of(host.daemon, os.listdir(f"/proc/{host.daemon}/fd")))


def test_a_guest_that_is_dismissed_does_not_come_back(start: Callable[..., Job]) -> None:
    """This process is the host."""
    first = start("first")
    (path,) = first.stage.local.rglob("host-*")
    os.kill(first.daemon, signal.SIGKILL)
    with listen(str(first.stage.path)) as listener, open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(first.stage.path))
        lock.flush()
        job = threading.Thread(target=lambda: jobs.append(start("guest")))
        jobs = list[Job]()
        job.start()
        listener.settimeout(LIMIT_S)
        channel = Channel(listener.accept()[0])
        assert b"visit" in (channel.receive_line() or b"")
        channel.send(BeginVisit(cache_bytes=0), memory_file())
        channel.send(Dismissed(error="for no reason"))
        channel.close()
        job.join()
        jobs[0].reads(NAMES)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "shares no block cache: for no reason" in jobs[0].end()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_any_fates_in_any_order(start: Callable[..., Job], seed: int) -> None:
    """Six jobs at a time; in each step one of them is killed, stopped or ended, and one begins."""
    draw = random.Random(seed)
    jobs = [start(str(number)) for number in range(5)]
    stopped: list[Job] = []
    for step in range(12):
        chosen = draw.choice(jobs)
        fate = draw.choice(["ends", "is killed", "is stopped"])
        if fate == "ends":
            jobs.remove(chosen)
            chosen.end()
        elif fate == "is killed":
            jobs.remove(chosen)
            os.kill(chosen.daemon, signal.SIGKILL)
            chosen.reads(NAMES)
            chosen.end(code=125)
        else:
            os.kill(chosen.daemon, signal.SIGSTOP)
            stopped.append(chosen)
        jobs.append(start(f"late {step}"))
        for job in [job for job in jobs if job not in stopped]:
            job.reads(draw.sample(NAMES, COUNT))
        while stopped:
            os.kill(stopped[-1].daemon, signal.SIGCONT)
            stopped.pop().reads(NAMES)
    for job in jobs:
        job.end()
