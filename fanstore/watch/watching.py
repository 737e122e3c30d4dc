"""Sets up the watching of a job: names its ranks, takes the TCP port for Prometheus if the user
asked for one, and measures. Takes the port before anything is staged, so that the job does not
begin if another process has the port."""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from fanstore._native import check, ffi, lib
from fanstore.config import Settings, spoken
from fanstore.errors import UsageError
from fanstore.messages.job import JobFigures, Status
from fanstore.messages.message import fields_of, values_of
from fanstore.messages.watched import (
    DiskFigures,
    MeasuredRank,
    ProgramCounters,
    ProgramFigures,
    SourceWaits,
    WatchedRank,
)
from fanstore.node.job_directory import JobDirectory
from fanstore.rank_calls.connected import ConnectedPeers
from fanstore.rank_calls.peers import Peers
from fanstore.startup import World
from fanstore.trace.sections import SOURCES
from fanstore.watch.answers import Live, Submit

_PORT_MOST = 65535


def take_port(settings: Settings, hosts: Sequence[str], rank: int) -> socket.socket | None:
    """Returns a bound socket; None if no port is wanted. hosts: the node of each rank; ranks on one
    host get successive ports, in their order. Raises UsageError."""
    if settings.metrics_port is None:
        return None
    first = settings.metrics_port
    port = first + hosts[:rank].count(hosts[rank]) if first else 0
    where = f"metrics at {settings.metrics_address} port {port}"
    source = spoken(settings.sources["metrics_port"], "metrics_port")
    if port > _PORT_MOST:
        raise UsageError(f"{where} ({source}): rank {rank} needs a port above 65535")
    try:
        return _bound(settings.metrics_address, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{where} ({source}): {reason}; choose another --metrics-port") from None


def _bound(address: str, port: int) -> socket.socket:
    """Returns a bound socket. Raises OSError."""
    family, kind, protocol, _, where = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket | None) -> str:
    """Returns the URL of the metrics for Prometheus, "" if there is none."""
    if listener is None:
        return ""
    address, port = listener.getsockname()[:2]
    if listener.family == socket.AF_INET6:
        address = f"[{address}]"
    anywhere = address in ("0.0.0.0", "[::]")
    return f"http://{os.uname().nodename if anywhere else address}:{port}/metrics"


# The sources whose bytes are counted. Bytes from a local pack are not counted by themselves.
_ELSEWHERE = ("cache", "rank", "shared")


def read_stalls(segment: str) -> dict[str, SourceWaits]:
    """Returns the waits of all programs, by source."""
    total = ffi.new("struct fan_counters *")
    with (
        open(segment, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapping,
    ):
        check(lib.fan_trace_sum(ffi.from_buffer(mapping), len(mapping), total))
    return {
        source: SourceWaits(
            count=int(waits.count),
            ns=int(waits.ns),
            bins=list(waits.bins),
            bytes=int(waits.bytes) if source in _ELSEWHERE else None,
        )
        for source, waits in zip(SOURCES, total.stalls, strict=True)
    }


def read_programs(segment: str) -> list[ProgramFigures]:
    """Returns the programs of this node that read files of the job."""
    from fanstore.arrays import np
    from fanstore.trace.lanes import LaneFile

    lanes, _ = LaneFile(segment).lanes_with_ended()
    live = lanes[lanes["state"] == int(lib.FAN_LANE_LIVE)]
    clock_s = time.monotonic()
    return [
        _program(live[live["process"] == number], clock_s) for number in np.unique(live["process"])
    ]


def _program(lanes: Any, clock_s: float) -> ProgramFigures:
    counters = lanes["counters"]
    ns, came = (counters["stalls"][name].sum(axis=0).tolist() for name in ("ns", "bytes"))
    by_source = dict(zip(SOURCES, came, strict=True))
    return ProgramFigures(
        number=int(lanes["process"][0]),
        pid=int(lanes["pid"][0]),
        name=lanes["comm"][0].tobytes().split(b"\0")[0].decode(errors="replace"),
        threads=len(lanes),
        counters=ProgramCounters(
            **{name: int(counters[name].sum()) for name in fields_of(ProgramCounters)}
        ),
        stall_ns=dict(zip(SOURCES, ns, strict=True)),
        bytes={source: by_source[source] for source in _ELSEWHERE},
        clock_s=clock_s,
    )


class Watching:
    """Watches one job. Create it before anything is staged, open and start it when serving begins,
    and close it when serving ends."""

    def __init__(self, world: World, settings: Settings, directory: JobDirectory) -> None:
        """Exchanges names with the other ranks. Raises UsageError if the port is not free."""
        met = world.gather_all((os.uname().nodename, directory.job_id))
        self._hosts = [host for host, _ in met]
        self._port = take_port(settings, self._hosts, world.rank)
        self._deadline_s = settings.deadline_s
        self._directory = directory
        self._began_s = time.monotonic()
        self.first_id = met[0][1]  # rank 0's job id names the job on all ranks
        self._rank = world.rank
        self._started_s = time.time()
        self._live: Live | None = None
        self.metrics_url = url_of(self._port)

    def open(
        self,
        status: Callable[[], Status],
        figures: Callable[[], JobFigures],
        peers: ConnectedPeers | None,
    ) -> None:
        """Makes the sockets. status, figures: return this rank's own answers, in any thread. peers:
        not started yet; None if there are no other ranks."""
        self._figures = figures
        answers = {"figures": self._with_programs, "status": status}
        self._live = Live(
            self._directory.path, answers, self._measured, Peers() if peers is None else peers,
            self._hosts, self._deadline_s, self._port,
        )  # fmt: skip

    def start(self, submit: Submit) -> None:
        """Starts to answer. submit: runs a coroutine in the event loop of the peers."""
        if self._live is not None:
            self._live.start(submit)

    def close(self) -> None:
        """Stops answering. Call it before you close the objects from which answers are made."""
        if self._live is not None:
            self._live.close()
        elif self._port is not None:
            self._port.close()

    def _with_programs(self) -> WatchedRank:
        programs = read_programs(self._directory.file("segment"))
        return WatchedRank(**values_of(self._measured()), programs=programs)

    def _measured(self) -> MeasuredRank:
        """Returns the present figures with `clock_s`, this daemon's clock when the counters were
        read."""
        figures = self._figures()
        stalls = read_stalls(self._directory.file("segment"))
        clock_s = time.monotonic()
        return MeasuredRank(
            **values_of(figures),
            first_id=self.first_id,
            rank=self._rank,
            world_size=len(self._hosts),
            host=self._hosts[self._rank],
            daemon_pid=os.getpid(),
            started_s=self._started_s,
            stalls=stalls,
            clock_s=clock_s,
            up_s=clock_s - self._began_s,
            disk=_disk_figures(self._directory.path),
        )


def _disk_figures(path: str) -> DiskFigures:
    """Returns the size and free bytes of the local directory's file system."""
    space = os.statvfs(path)
    return DiskFigures(
        size_bytes=space.f_blocks * space.f_frsize, free_bytes=space.f_bavail * space.f_frsize
    )
