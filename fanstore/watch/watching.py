"""Sets up the watching of a job: names its ranks, takes the port for metrics, and measures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from fanstore.config import Settings
from fanstore.messages.job import JobFigures, Status
from fanstore.messages.message import values_of
from fanstore.messages.watched import DiskFigures, MeasuredRank, WatchedRank
from fanstore.node.job_directory import JobDirectory
from fanstore.rank_calls.connected import ConnectedPeers
from fanstore.rank_calls.peers import Peers
from fanstore.startup import World
from fanstore.watch.answers import Live, Submit
from fanstore.watch.metrics_port import take_port, url_of
from fanstore.watch.watched import read_programs, read_stalls


class Watching:
    """The watching of one job. Make it before anything is staged, open and start it when serving
    begins, and close it when serving ends."""

    def __init__(self, world: World, settings: Settings, directory: JobDirectory) -> None:
        """Meets the other ranks. Raises UsageError if the port cannot be had."""
        met = world.gather_all((os.uname().nodename, directory.job_id))
        self._hosts = [host for host, _ in met]
        self._port = take_port(settings, self._hosts, world.rank)
        self._deadline_s = settings.deadline_s
        self._directory = directory
        self._began_s = time.monotonic()
        self.first_id = met[0][1]  # the job's id on rank 0 names the job on all ranks
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
        """Makes the sockets. status, figures: this rank's own answers, called in any thread. peers:
        not started yet; None if there are no other ranks."""
        self._figures = figures
        answers = {"figures": self._with_programs, "status": status}
        self._live = Live(
            self._directory.path, answers, self._measured, Peers() if peers is None else peers,
            self._hosts, self._deadline_s, self._port,
        )  # fmt: skip

    def start(self, submit: Submit) -> None:
        """Begins to answer. submit: runs a coroutine in the event loop of the peers."""
        if self._live is not None:
            self._live.start(submit)

    def close(self) -> None:
        """Ends the answers. Call it before closing anything that they are made from."""
        if self._live is not None:
            self._live.close()
        elif self._port is not None:
            self._port.close()

    def _with_programs(self) -> WatchedRank:
        programs = read_programs(self._directory.file("segment"))
        return WatchedRank(**values_of(self._measured()), programs=programs)

    def _measured(self) -> MeasuredRank:
        """Returns the present figures, with `clock_s`, the time on this daemon's clock when the
        counters were read."""
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
