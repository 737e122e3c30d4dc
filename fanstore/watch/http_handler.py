"""Handles one request to the HTTP server. A module of its own, so that http.server is loaded only
in jobs that somebody watches."""

from __future__ import annotations

import socket
import sys
import traceback
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from fanstore.errors import UsageError
from fanstore.watch.http_server import Route

_TEXT = "text/plain; charset=utf-8"


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, stream: socket.socket, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        super().__init__(stream, ("", 0), cast(Any, None))

    def do_GET(self) -> None:
        """Answers with the result of the path's function, which raises UsageError for an invalid
        request."""
        url = urlsplit(self.path)
        route = self._routes.get(url.path)
        if route is None:
            self._send(404, _TEXT, f"there is: {' '.join(self._routes)}\n".encode())
            return
        try:
            kind, body = route(dict(parse_qsl(url.query)), self.headers.get("Accept", ""))
        except UsageError as error:
            self._send(400, _TEXT, f"{error}\n".encode())
            return
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._send(500, _TEXT, f"{type(error).__name__}: {error}\n".encode())
            return
        self._send(200, kind, body)

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing, so that requests are not written to the daemon's log."""


def answer(stream: socket.socket, routes: Mapping[str, Route]) -> None:
    """Reads one request and answers it. Raises OSError if the other end is too slow."""
    _Handler(stream, routes)
