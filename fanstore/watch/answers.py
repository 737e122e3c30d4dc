"""Answers to the watchers of a job: `fanstore top`, `fanstore status --all-ranks`, Prometheus.

The socket `live` in the job directory speaks HTTP: /metrics for Prometheus, /figures and /status of
all ranks as JSON. A TCP port, if the user asked for one, has only /metrics.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fanstore.errors import UsageError
from fanstore.messages.channel import LIVE_SOCKET, bind
from fanstore.messages.message import Message, encode
from fanstore.messages.watched import MeasuredRank
from fanstore.rank_calls.peers import Peers
from fanstore.watch.gather import Gatherer
from fanstore.watch.http_server import HttpServer, Route

_PATIENCE_MOST_S = 3.0  # less than the server's time limit for a connection
_JSON = "application/json"

Answer = Callable[[], Message]
# Runs a coroutine in the event loop of the peers, from another thread.
Submit = Callable[[Any], Future[Any]]


class Live:
    """The server for watchers. Start it when the peers start. Close it before the objects from
    which it makes its answers."""

    def __init__(
        self, directory: str, answers: Mapping[str, Answer],
        measured: Callable[[], MeasuredRank], peers: Peers, hosts: Sequence[str], deadline_s: float,
        port: socket.socket | None,
    ) -> None:  # fmt: skip
        """answers: functions that return this rank's own answers to "figures" and "status";
        measured: returns the figures for its metrics; all may be called in any thread. peers: not
        started yet. port: a bound socket."""
        self._answers = answers
        self._measured = measured
        # A thread of its own: in the loop of the peers, a hanging disk would delay everything.
        self._executor = ThreadPoolExecutor(1, "fanstore-figures")
        self._gatherers: dict[str, Gatherer[Message]] = {}
        for name in answers:
            peers.serve(f"live.{name}", self._own(name))
            self._gatherers[name] = Gatherer(peers, hosts, f"live.{name}", deadline_s)
        self._submit: Submit | None = None
        local = bind(directory, LIVE_SOCKET)
        routes: dict[socket.socket, Mapping[str, Route]] = {local: self._all_routes()}
        if port is not None:
            routes[port] = {"/metrics": self._metrics}
        # Loads Prometheus' library early, so that the first scrape need not wait for it.
        self._server = HttpServer(routes, *([] if port is None else [_load]))

    def start(self, submit: Submit) -> None:
        """Starts the thread that answers over HTTP. submit: hands a call to the outputs' thread."""
        self._submit = submit
        self._server.start()

    def close(self) -> None:
        """Ends all requests that are being answered."""
        self._server.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _all_routes(self) -> dict[str, Route]:
        of_ranks = {f"/{name}": self._of_ranks(name) for name in self._answers}
        return {"/metrics": self._metrics, **of_ranks}

    def _own(self, name: str) -> Callable[[int], Any]:
        async def answer(_: int) -> Message:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self._answers[name])

        return answer

    def _of_ranks(self, name: str) -> Route:
        def answer(parameters: Mapping[str, str], _: str) -> tuple[str, bytes]:
            patience_s = _patience_s(parameters.get("patience_s", "1"))
            if parameters.get("ranks") == "own":
                return _rows([self._answers[name]()])
            assert self._submit is not None
            rows = self._submit(self._gatherers[name].ask(patience_s)).result(2 * _PATIENCE_MOST_S)
            return _rows(rows)

        return answer

    def _metrics(self, _: Mapping[str, str], accept: str) -> tuple[str, bytes]:
        from fanstore.watch.metrics import exposition

        return exposition(self._measured(), accept)


def _patience_s(text: str) -> float:
    """Returns how long to wait for ranks, at most _PATIENCE_MOST_S."""
    try:
        patience_s = min(float(text), _PATIENCE_MOST_S)
    except ValueError:
        patience_s = -1.0
    if not patience_s >= 0:  # is also true for NaN
        raise UsageError(f"patience_s is {text!r}; allowed: a number of seconds, 0 or more")
    return patience_s


def _load() -> None:
    from fanstore.watch import http_handler, metrics  # noqa: F401


def _rows(rows: Sequence[Message]) -> tuple[str, bytes]:
    return _JSON, json.dumps({"ranks": [encode(row) for row in rows]}).encode() + b"\n"
