"""The screen of `fanstore top`, and its keys."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fanstore.cli.jobs.top_table import LEGEND, Row, heading, legend, lines_of, table_of
from fanstore.exit_codes import SIGNALLED
from fanstore.watch.rates import in_order

_KEYS = {"s": "stall", "o": "opens", "b": "bytes", "r": "rank"}
_HELP = "q quit;  h help;  sort by: s stall  o opens  b bytes  r rank;  p programs on, off"
_FIRST_LOOK_S = 1.0
_LOOK_AT_SIZE_S = 0.5
_END_S = 5.0
_FRAME_LINES = 4


class Looks(Protocol):
    """A source of rates for the screen."""

    job: Any

    def rates(self) -> list[Row]:
        """Returns a row for each rank."""


class Screen:
    """The screen: the rows that it shows now, their order, and whether programs and the meaning of
    the columns are shown."""

    def __init__(self, look: Looks, interval_s: float, sort: str) -> None:
        self._look = look
        self._interval_s = interval_s
        self._sort = sort
        self._programs = True
        self._helps = False
        self._rows: list[Row] = []

    def run(self) -> None:
        """Shows the job until q is typed. Raises FanstoreError when the job has ended."""
        console = Console()
        next_s = time.monotonic() + min(self._interval_s, _FIRST_LOOK_S)
        with keys() as key_within, Live(console=console, screen=True, auto_refresh=False) as live:
            key = ""
            while key != "q":
                if time.monotonic() >= next_s:
                    self._rows = self._look.rates()
                    next_s = time.monotonic() + self._interval_s
                size = console.size
                live.update(self._view(size.height), refresh=True)
                key = ""
                while not key and console.size == size and time.monotonic() < next_s:
                    left_s = max(0.0, next_s - time.monotonic())
                    key = key_within(min(left_s, _LOOK_AT_SIZE_S))
                self._sort = _KEYS.get(key, self._sort)
                self._programs ^= key == "p"
                self._helps ^= key in ("h", "?")

    def _view(self, height: int) -> Group:
        """Returns the text for a terminal with `height` lines; rows that do not fit are counted."""
        lines = lines_of(in_order(self._rows, self._sort), self._programs)
        explained = [legend()] if self._helps else []
        room = max(1, height - _FRAME_LINES - len(LEGEND) * self._helps)
        foot = _HELP if len(lines) <= room else f"{len(lines) - room} lines more.  {_HELP}"
        return Group(
            heading(self._look.job.job_id, self._rows),
            table_of(lines[:room]),
            *explained,
            Text(foot, style="dim", no_wrap=True, overflow="crop"),
        )


@contextlib.contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Switches the terminal to single keys without echo within the block. Yields a function that
    waits for a key up to a number of seconds, and returns "" if none came."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def key_within(timeout_s: float) -> str:
        if not select.select([fd], [], [], timeout_s)[0]:
            return ""
        return os.read(fd, 1).decode(errors="replace") or "q"

    tty.setcbreak(fd)
    try:
        yield key_within
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _end_by_signal(number: int, _: object) -> None:
    raise SystemExit(SIGNALLED + number)


def _has_ended(directory: str) -> bool:
    """Waits up to 5 s for a job whose daemon stopped answering, and returns whether it is gone."""
    until_s = time.monotonic() + _END_S
    while os.path.exists(directory) and time.monotonic() < until_s:
        time.sleep(_END_S / 50)
    return not os.path.exists(directory)


def watch(look: Looks, interval_s: float, sort: str) -> int:
    """Shows a job until q, Ctrl-C or the job's end, then restores the terminal; returns the exit
    code."""
    from fanstore.errors import FanstoreError

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end_by_signal)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # Ctrl-Z would leave the shell with this screen
    try:
        Screen(look, interval_s, sort).run()
    except KeyboardInterrupt:
        pass
    except FanstoreError:
        if not _has_ended(look.job.directory):
            raise
        print(f"job {look.job.job_id} has ended")
    return 0
