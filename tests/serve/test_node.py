"""The node daemon's core from Python: what it opens and refuses, sessions, wants without a peer."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import make_stage, wait_for

from fanstore._native import check, ffi, lib
from fanstore.dataset import Dataset, open_dataset
from fanstore.job.daemon import descriptor_warning
from fanstore.messages.channel import Channel
from fanstore.messages.message import from_line
from fanstore.node.core import Node
from fanstore.node.segment import MountEntry, write_segment
from fanstore.node.sessions import Sessions

CACHE_BYTES = 16 << 20
ON_TOP_BYTES = 5 << 20  # of a small cache


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    stage = make_stage(tmp_path_factory.mktemp("node"))
    with open_dataset(stage.dataset()) as opened:
        yield opened


def entry_of(dataset: Dataset, **changes: Any) -> MountEntry:
    """The mount of a dataset whose first pack is here and whose others are elsewhere."""
    places = [int(lib.FAN_PLACE_STAGED)] + [int(lib.FAN_PLACE_REMOTE)] * (dataset.pack_count - 1)
    directory = os.fspath(dataset.directory)
    fields: dict[str, Any] = {
        "prefix": "/somewhere",
        "alias": "",
        "skeleton": "/somewhere",
        "index_path": os.path.join(directory, "index.fsi"),
        "staged_dir": directory,
        "dataset_dir": directory,
        "device": 1,
        "record_count": dataset.header.record_count,
        "prefix_made": False,
        "places": places,
    }
    return MountEntry(**{**fields, **changes})


@pytest.fixture
def segment(dataset: Dataset, tmp_path: Path) -> Path:
    path = tmp_path / "segment"
    write_segment(os.fspath(path), [entry_of(dataset)], os.getpid())
    return path


def try_open(segment: Path, **changes: int) -> tuple[int, Any]:
    """fan_node_open's answer and the node."""
    path = ffi.new("char[]", os.fsencode(segment))
    options = ffi.new("struct fan_node_options *")
    options.job_segment = path
    options.cache_bytes = CACHE_BYTES
    options.deadline_ns = options.shared_deadline_ns = 10**9
    options.world_size = 1
    options.idle_sleep_us = 1000
    for name, value in changes.items():
        setattr(options, name, value)
    node = ffi.new("struct fan_node **")
    return lib.fan_node_open(options, node), node[0]


@contextmanager
def opened(segment: Path, started: bool = True, **changes: int) -> Iterator[Any]:
    """A node, with its thread running and no transport."""
    rc, node = try_open(segment, **changes)
    check(rc)
    try:
        if started:
            check(lib.fan_node_start(node, ffi.NULL))
        yield node
        assert lib.fan_node_stop(node) == 0
    finally:
        lib.fan_node_close(node)


def stats_of(node: Any) -> Any:
    stats = ffi.new("struct fan_node_stats *")
    lib.fan_node_stats(node, stats)
    return stats


class Cache:
    """The cache segment as a client maps it."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self._mapping = mmap.mmap(lib.fan_node_cache_fd(node), 0)
        self._base = ffi.cast("char *", ffi.from_buffer(self._mapping))
        self.header = ffi.cast("struct fan_cache_header *", self._base)
        offset = self.header.sessions_offset
        self.sessions = ffi.cast("struct fan_session *", self._base + offset)

    def want(self, session: int, pin: int, file: int, block: int = 0) -> int:
        """Asks for a block and waits for the answer: the pin's error."""
        at = self.sessions[session].pins[pin]
        at.file, at.block, at.error = file, block, 0
        at.state = lib.FAN_PIN_WANTED
        self.sessions[session].wanted = 1
        self.header.wanted_sessions[session // 64] |= 1 << session % 64
        self.header.doorbell += 1
        wait_for(lambda: at.state != lib.FAN_PIN_WANTED, "an answer")
        assert at.state == lib.FAN_PIN_FAILED
        at.state = lib.FAN_PIN_FREE
        return int(at.error)


def file_of(dataset: Dataset, name: bytes, mount: int = 0) -> int:
    return mount << 56 | (dataset.lookup(name) + 1)


def remote_name(dataset: Dataset) -> bytes:
    """A file of a pack that is elsewhere."""
    for record in dataset.records_of_pack(1):
        if dataset.records[record]["logical_size"] > 0:
            return dataset.relpath(int(record))
    raise AssertionError("no file in the second pack")


def test_a_node_that_does_nothing(segment: Path) -> None:
    with opened(segment) as node:
        cache = Cache(node)
        stats = stats_of(node)
        assert bytes(cache.header.magic) == b"FANCACH\n"
        assert cache.header.state == lib.FAN_JOB_SERVING
        assert CACHE_BYTES < stats.cache_bytes <= CACHE_BYTES * 5 // 3 + ON_TOP_BYTES
        used = os.fstat(lib.fan_node_cache_fd(node)).st_blocks * 512
        assert used < stats.cache_bytes, "memory is taken when it is needed"
        idle = [name for name, _ in ffi.typeof("struct fan_node_stats").fields]
        idle = [name for name in idle if name not in ("cache_bytes", "latency_bins")]
        assert {name: getattr(stats, name) for name in idle} == dict.fromkeys(idle, 0)
        assert lib.fan_node_finish(node) == 0
        check(lib.fan_node_stop(node))
        assert cache.header.state == lib.FAN_JOB_ENDED


def test_nothing_is_a_node_too() -> None:
    assert lib.fan_node_stop(ffi.NULL) == 0
    lib.fan_node_close(ffi.NULL)


@pytest.mark.parametrize(
    "changes",
    [
        {"cache_bytes": 6 << 20},
        {"cache_bytes": 0},
        {"policy": 4},
        {"rank": 1},
        {"world_size": 0},
        {"deadline_ns": 0},
        {"shared_deadline_ns": 0},
        {"idle_sleep_us": 0},
        {"job_segment": ffi.NULL},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_bad_options_are_refused(segment: Path, changes: dict[str, Any]) -> None:
    assert try_open(segment, **changes)[0] == -errno.EINVAL


def test_a_cache_of_eight_blocks_is_the_smallest(segment: Path) -> None:
    sizes = [n << 16 for n in range(96, 160) if try_opens(segment, n << 16)]
    assert 6 << 20 < sizes[0] <= 8 << 20
    assert sizes == [n << 16 for n in range(sizes[0] >> 16, 160)]


def try_opens(segment: Path, cache_bytes: int) -> bool:
    rc, node = try_open(segment, cache_bytes=cache_bytes)
    if rc == 0:
        assert stats_of(node).cache_bytes <= cache_bytes * 5 // 3 + ON_TOP_BYTES
        lib.fan_node_close(node)
    return bool(rc == 0)


@pytest.mark.parametrize("kept", [0, 8, 64, -128])
def test_a_segment_cut_short_is_refused(segment: Path, kept: int) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole[:kept])
    assert try_open(segment)[0] == -errno.EINVAL


@pytest.mark.parametrize("field", ["magic", "version", "layout_id", "mount_count", "mounts_offset"])
def test_a_strange_segment_is_refused(segment: Path, field: str) -> None:
    offset = dict(ffi.typeof("struct fan_job_header").fields)[field].offset
    with segment.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\xff\xff")
    assert try_open(segment)[0] == -errno.EINVAL


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"record_count": 3}, errno.EINVAL),
        ({"places": [1]}, errno.EINVAL),
        ({"places": [1] * 40}, errno.EINVAL),
        ({"index_path": "/nowhere/index.fsi"}, errno.ENOENT),
        ({"index_path": __file__}, errno.EINVAL),
    ],
)
def test_a_segment_that_fits_no_index_is_refused(
    dataset: Dataset, tmp_path: Path, changes: dict[str, Any], error: int
) -> None:
    path = tmp_path / "other"
    write_segment(os.fspath(path), [entry_of(dataset, **changes)], os.getpid())
    assert try_open(path)[0] == -error


def test_no_segment(tmp_path: Path) -> None:
    assert try_open(tmp_path / "none")[0] == -errno.ENOENT


def test_the_thread_has_a_name_and_takes_no_signals_but_its_own_faults(segment: Path) -> None:
    def threads() -> list[Path]:
        tasks = Path("/proc/self/task").iterdir()
        return [t for t in tasks if (t / "comm").read_text() == "fanstore-node\n"]

    with opened(segment) as node:
        wait_for(threads, "the thread's name")
        status = (threads()[0] / "status").read_text()
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        blocked_signals = {n for n in signal.Signals if blocked >> (n - 1) & 1}
        assert blocked_signals >= {signal.SIGTERM, signal.SIGUSR1, signal.SIGPROF}
        faults = {signal.SIGSEGV, signal.SIGBUS}  # blocked, they would kill unseen by a handler
        assert not blocked_signals & faults
        assert lib.fan_node_start(node, ffi.NULL) == -errno.EINVAL
    assert threads() == []


def test_sessions_are_numbered_and_run_out(segment: Path) -> None:
    with opened(segment) as node:
        cache = Cache(node)
        count = cache.header.session_count
        assert [lib.fan_node_session_begin(node, 7) for _ in range(count)] == list(range(count))
        assert lib.fan_node_session_begin(node, 7) == -errno.EAGAIN
        assert cache.sessions[5].state == lib.FAN_SESSION_LIVE
        assert cache.sessions[5].pid == 7
        lib.fan_node_session_end(node, 5)
        assert cache.sessions[5].state == lib.FAN_SESSION_FREE
        lib.fan_node_session_end(node, 5)
        lib.fan_node_session_end(node, 1 << 30)
        assert lib.fan_node_session_begin(node, 8) == 5
        wait_for(lambda: stats_of(node).sessions == count, "the count of sessions")


def test_a_session_leaves_nothing_to_the_next(segment: Path) -> None:
    with opened(segment) as node:
        cache = Cache(node)
        session = lib.fan_node_session_begin(node, 1)
        cache.sessions[session].files[511] = 9
        cache.sessions[session].pins[63].state = lib.FAN_PIN_HELD
        lib.fan_node_session_end(node, session)
        assert lib.fan_node_session_begin(node, 1) == session
        assert cache.sessions[session].files[511] == 0
        assert cache.sessions[session].pins[63].state == lib.FAN_PIN_FREE


@pytest.mark.parametrize(("room", "answer"), [(33, "session"), (32, "error")])
def test_sessions_leave_descriptors_for_the_daemon_itself(
    segment: Path, monkeypatch: pytest.MonkeyPatch, room: int, answer: str
) -> None:
    node = Node(os.fspath(segment), 0, 1, CACHE_BYTES, "lru", 1.0, 1.0)
    client, served = socket.socketpair()
    limit, said = served.fileno() + room, list[str]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    with selectors.DefaultSelector() as selector, client, served:
        sessions, channel = Sessions(selector, node, said.append), Channel(served)
        sessions.begin(channel)
        assert answer in from_line(Channel(client).receive_line() or b"{}")
        assert sessions.owns(channel) == (answer == "session")
        assert any("ulimit -Hn" in line for line in said) == (answer == "error")
    node.close()


def test_who_has_ended_need_not_hear_of_a_refusal() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with selectors.DefaultSelector() as selector, theirs:
        Sessions(selector, None, list[str]().append).begin(Channel(theirs))


def test_who_finds_no_session_is_told_of_once(segment: Path) -> None:
    node, said = Node(os.fspath(segment), 0, 1, CACHE_BYTES, "lru", 1.0, 1.0), list[str]()
    taken = iter(lambda: node.begin_session(1), None)
    assert sum(1 for _ in taken) >= 64
    pair = socket.socketpair()
    with selectors.DefaultSelector() as selector, pair[0], pair[1]:
        sessions, channel = Sessions(selector, node, said.append), Channel(pair[1])
        sessions.begin(channel)
        sessions.begin(channel)
        assert not sessions.owns(channel)
    assert len(said) == 1 and "the block cache has no room for them" in said[0]
    node.close()


def test_what_is_nowhere_fails_and_is_asked_of_nobody(tmp_path: Path, dataset: Dataset) -> None:
    """There is no transport, and no shared file system any more."""
    segment = tmp_path / "segment"
    entry = entry_of(dataset, dataset_dir=os.fspath(tmp_path / "gone"))
    write_segment(os.fspath(segment), [entry], os.getpid())
    with opened(segment, world_size=2) as node:
        check(lib.fan_node_set_replicas(node, 0, 1, ffi.new("uint32_t[]", [1]), 1))
        cache = Cache(node)
        session = lib.fan_node_session_begin(node, os.getpid())
        wanted = file_of(dataset, remote_name(dataset))
        assert cache.want(session, 0, wanted) == errno.EIO
        assert cache.want(session, 0, wanted, 1 << 40) == errno.EIO
        assert cache.want(session, 1, file_of(dataset, b"")) == errno.EIO
        assert cache.want(session, 2, file_of(dataset, b"f00", mount=1)) == errno.EIO
        wait_for(lambda: stats_of(node).failures == 4, "the count of failures")
        assert stats_of(node).fetches == 0


def test_what_is_wanted_at_the_end_is_refused(segment: Path, dataset: Dataset) -> None:
    rc, node = try_open(segment)
    check(rc)
    cache = Cache(node)
    session = lib.fan_node_session_begin(node, os.getpid())
    cache.sessions[session].pins[3].state = lib.FAN_PIN_WANTED
    assert lib.fan_node_stop(node) == 0
    assert cache.sessions[session].pins[3].state == lib.FAN_PIN_FAILED
    assert cache.sessions[session].pins[3].error == errno.EREMOTEIO
    lib.fan_node_close(node)


@pytest.mark.parametrize(
    ("mount", "pack", "rank", "good"),
    [(0, 1, 1, True), (1, 0, 1, False), (0, 2, 1, False), (0, 1, 2, False)],
)
def test_replicas_are_checked(segment: Path, mount: int, pack: int, rank: int, good: bool) -> None:
    with opened(segment, started=False, world_size=2) as node:
        rc = lib.fan_node_set_replicas(node, mount, pack, ffi.new("uint32_t[]", [rank]), 1)
        assert rc == (0 if good else -errno.EINVAL)


def test_a_rank_can_be_lost_once(segment: Path) -> None:
    with opened(segment, world_size=3) as node:
        assert not lib.fan_node_is_lost(node, 2)
        for rank in (2, 2, 0, 77):  # twice; itself; none
            lib.fan_node_lose(node, rank)
        assert [lib.fan_node_is_lost(node, rank) for rank in range(3)] == [0, 0, 1]
        wait_for(lambda: stats_of(node).lost_ranks == 1, "the count of lost ranks")


@pytest.mark.parametrize(("limit", "warns"), [(4096, False), (1064, False), (1063, True)])
def test_too_few_descriptors_for_mpi_are_said_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, limit: int, warns: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    warning = descriptor_warning(1000)
    assert ("ulimit -Hn" in warning and "1000 ranks" in warning) == warns


AFTER_ITS_DEATH = """
import signal, socket
from fanstore.messages.channel import Channel
from fanstore.messages.job import Command
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in the process that becomes the command
ours, daemons = socket.socketpair()
daemons.close()
Channel(ours).try_send(Command(pid=1))
"""


def test_a_message_to_a_dead_daemon_raises_no_signal() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_ITS_DEATH], check=False, timeout=60)
    assert done.returncode == 0
