"""The server for watchers goes on whatever single connections do."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from serving import wait_for

from fanstore.errors import UsageError
from fanstore.watch import http_server
from fanstore.watch.http_server import CONNECTIONS_MOST, HttpServer

WIDE = b"x" * (32 << 20)  # more than a socket holds


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(http_server, "OVERDUE_S", 1.0)
    listener = socket.create_server(("127.0.0.1", 0))
    where = listener.getsockname()

    def wrong(*_: object) -> tuple[str, bytes]:
        raise OSError("the disk is gone")

    def refused(*_: object) -> tuple[str, bytes]:
        raise UsageError("a is 'b'; allowed: c")

    routes = {
        "/said": lambda parameters, accept: ("text/plain", f"{parameters} {accept}".encode()),
        "/wide": lambda *_: ("text/plain", WIDE),
        "/wrong": wrong,
        "/refused": refused,
    }
    server = HttpServer({listener: routes})
    server.start()
    yield where
    server.close()
    server.close()
    with pytest.raises(OSError):
        socket.create_connection(where, 1.0)


def asked(address: tuple[str, int], path: str) -> tuple[bytes, bytes]:
    """The first line of an answer, and its body."""
    with socket.create_connection(address, 30.0) as stream:
        stream.sendall(f"GET {path} HTTP/1.0\r\nAccept: text/plain\r\n\r\n".encode())
        said = b"".join(iter(lambda: stream.recv(1 << 16), b""))
    head, _, body = said.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


def test_what_is_asked_is_answered(address: tuple[str, int]) -> None:
    assert asked(address, "/said?a=1&b=x%20y")[1] == b"{'a': '1', 'b': 'x y'} text/plain"
    line, body = asked(address, "/other")
    assert b" 404 " in line and body == b"there is: /said /wide /wrong /refused\n"
    line, body = asked(address, "/wrong")
    assert b" 500 " in line and body == b"OSError: the disk is gone\n"
    line, body = asked(address, "/refused")
    assert b" 400 " in line and body == b"a is 'b'; allowed: c\n"


def test_half_open_and_slow_connections_keep_nobody_out(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as held:
        streams = [
            held.enter_context(socket.create_connection(address, 30.0))
            for _ in range(3 * CONNECTIONS_MOST)
        ]
        for stream in streams[::2]:
            stream.sendall(b"GET /wide HTTP/1.0\r\n\r\n")  # and does not read
        wait_for(lambda: b" 200 " in asked_or_nothing(address), "an answer")


def asked_or_nothing(address: tuple[str, int]) -> bytes:
    """The first line of an answer; nothing where the connection ended before."""
    try:
        return asked(address, "/said")[0]
    except OSError:
        return b""


def test_a_connection_that_trickles_is_ended(address: tuple[str, int]) -> None:
    with socket.create_connection(address, 30.0) as stream:

        def ended() -> bool:
            try:
                stream.sendall(b"G")
            except OSError:
                return True
            return False

        wait_for(ended, "the end of the connection")


def test_one_that_never_began_can_be_closed() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    HttpServer({listener: {}}).close()
    assert listener.fileno() == -1
