"""A bucket for tests: moto's server, behind a proxy that counts requests and makes faults."""

from __future__ import annotations

import contextlib
import http.client
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pytest

BUCKET = "bucket"
SECRET = "secret-of-the-tests"
_ACCOUNT = "123456789012"


@dataclass
class Fault:
    """Changes the answers to requests for the keys that match, `times` times. methods: of
    these requests. status: the answer in place of the right one. cut: how many bytes of the body
    come before the connection ends. length: added to the Content-Length, without bytes. etag: in
    place of the right one. lost: the request is passed on, but not answered. without: a header that
    the server does not know. dropped: the connection ends in place of an answer to a write."""

    keys: str
    times: int = 1 << 30
    status: int = 0
    cut: int | None = None
    length: int = 0
    etag: str = ""
    delay_s: float = 0.0
    methods: str = "GET"
    lost: bool = False
    without: str = ""
    dropped: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class TestBucket:
    """A bucket behind the proxy. gets: how often each key was asked for; writes: how often by each
    other method; lists: how many pages of the listing were; agents: which programs asked for
    objects; most_at_once: how many requests were under way; signed: how many were signed;
    accepts: returns whether a key that signs is valid now.
    before_get: called before a request for an object is passed on; before_write: with the method,
    too, before another one is."""

    __test__ = False

    def __init__(self, backend: Any, server: tuple[str, int]) -> None:
        self._backend = backend
        self._server = server
        self._lock = threading.Lock()
        self.faults: list[Fault] = []
        self.gets: Counter[str] = Counter()
        self.writes: Counter[tuple[str, str]] = Counter()
        self.lists = 0
        self.agents: Counter[str] = Counter()
        self.at_once = self.most_at_once = self.signed = 0
        self.name = BUCKET
        self.address = f"s3://{BUCKET}"
        self.path = f"/{BUCKET}"  # of requests for the bucket
        self.url = ""
        self.accepts: Callable[[str], bool] = lambda key: True
        self.before_get: Callable[[str], None] = lambda key: None
        self.before_write: Callable[[str, str], None] = lambda method, key: None

    @property
    def env(self) -> dict[str, str]:
        """The environment with which a job finds the bucket."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key-of-the-tests",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    def put(self, key: str, content: bytes, mark: str = "") -> None:
        """Makes an object. mark: of the metadata in which FanStore notes a version."""
        made = self._backend.put_object(self.name, key, content)
        if mark:
            made.set_metadata({"x-amz-meta-fanstore": mark})

    def publish(self, key: str) -> None:
        """Lets anybody read an object."""
        from moto.s3.models import get_canned_acl

        self._backend.get_object(BUCKET, key).set_acl(get_canned_acl("public-read"))

    def remove(self, key: str) -> None:
        self._backend.delete_object(self.name, key)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Returns the objects of which the key begins with `prefix`, by the rest of the key."""
        keys = self._backend.get_bucket(BUCKET).keys
        names = [name for name in list(keys) if name.startswith(prefix)]
        return {name.removeprefix(prefix): keys[name].value for name in names}

    def begun(self) -> int:
        """Returns how many objects of several parts are not whole yet."""
        return len(self._backend.list_multipart_uploads(BUCKET))

    def taken(self, key: str, method: str = "GET") -> Fault | None:
        """Counts a request for a key, and takes the fault that it meets."""
        with self._lock:
            if method == "GET":
                self.gets[key] += 1
            else:
                self.writes[method, key] += 1
            for fault in self.faults:
                matches = re.fullmatch(fault.methods, method) and re.fullmatch(fault.keys, key)
                if fault.times > 0 and matches:
                    fault.times -= 1
                    return fault
        return None

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            yield
        finally:
            with self._lock:
                self.at_once -= 1

    def listed(self) -> Fault | None:
        with self._lock:
            self.lists += 1
        return self.taken("?list")

    def asked(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, Any, bytes]:
        """Passes a request on to moto."""
        connection = http.client.HTTPConnection(*self._server, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


B = TypeVar("B", bound=TestBucket)


def _handler(bucket: TestBucket) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with bucket.under_way():
                signature = self.headers.get("Authorization", "")
                bucket.signed += bool(signature)
                signer = re.search(r"Credential=([^/]+)/", signature)
                if signer and not bucket.accepts(signer[1]):
                    body = b"<Error><Code>ExpiredToken</Code></Error>"
                    self._answer(403, {}, body, Fault(""))
                else:
                    self._get()

        def _get(self) -> None:
            where = urlsplit(self.path)
            key = unquote(where.path).removeprefix(bucket.path).removeprefix("/")
            fault = bucket.taken(key) if key else bucket.listed()
            if key:
                bucket.agents[self.headers.get("User-Agent", "").partition("/")[0]] += 1
                bucket.before_get(key)
            if fault is not None and fault.status:
                self._answer(
                    fault.status, fault.headers, b"<Error><Code>Test</Code></Error>", Fault("")
                )
                return
            status, headers, body = bucket.asked("GET", self.path, dict(self.headers))
            self._answer(status, dict(headers), body, fault or Fault(""))

        def _write(self) -> None:
            with bucket.under_way():
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                key = unquote(urlsplit(self.path).path).removeprefix(f"{bucket.path}/")
                bucket.before_write(self.command, key)
                fault = bucket.taken(key, self.command) or Fault("")
                time.sleep(fault.delay_s)
                if fault.dropped:
                    self.close_connection = True
                    return
                if fault.status:
                    self._answer(
                        fault.status, fault.headers, b"<Error><Code>Test</Code></Error>", Fault("")
                    )
                    return
                unknown = ("expect", fault.without)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in unknown}
                status, got, body = bucket.asked(self.command, self.path, headers, body)
                if fault.lost:
                    self.close_connection = True
                else:
                    self._answer(status, dict(got), body, Fault(""))

        do_PUT = do_POST = do_DELETE = do_HEAD = _write

        def _answer(self, status: int, headers: dict[str, str], body: bytes, fault: Fault) -> None:
            time.sleep(fault.delay_s)
            self.send_response_only(status)
            size = {k.lower(): v for k, v in headers.items()}.get("content-length", "0")
            headers = {k: v for k, v in headers.items() if k.lower() not in _OF_ONE_LINK}
            if fault.etag:
                headers = {k: v for k, v in headers.items() if k.lower() != "etag"}
                headers["ETag"] = fault.etag
            for name, value in headers.items():
                self.send_header(name, value)
            length = len(body) + fault.length if self.command != "HEAD" else size
            self.send_header("Content-Length", str(length))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                body = b"" if self.command == "HEAD" else body
                self.wfile.write(body if fault.cut is None else body[: fault.cut])
            self.close_connection = fault.cut is not None or fault.length != 0

        def log_message(self, *_: object) -> None:
            pass

    return Handler


_OF_ONE_LINK = ("content-length", "connection", "transfer-encoding", "server", "date")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def bucket_server() -> Iterator[Callable[[], TestBucket]]:
    """Runs the server. Yields a function that makes its bucket anew, and the proxy to it. Skips the
    test if a package is missing."""
    for package in ("moto.server", "flask", "obstore", "botocore"):
        pytest.importorskip(package, reason=f"{package} is not installed (extra `objects`, moto)")
    from moto.backends import get_backend
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    backend = get_backend("s3")[_ACCOUNT]["aws"]

    def make() -> TestBucket:
        backend.reset()
        backend.create_bucket(BUCKET, "us-east-1")
        return serve(TestBucket(backend, server.get_host_and_port()))

    try:
        with proxies() as serve:
            yield make
    finally:
        server.stop()


@contextlib.contextmanager
def proxies() -> Iterator[Callable[[B], B]]:
    """Yields a function that starts the proxy to a bucket, and returns the bucket."""
    running: list[_Server] = []

    def serve(bucket: B) -> B:
        proxy = _Server(("127.0.0.1", 0), _handler(bucket))
        bucket.url = f"http://127.0.0.1:{proxy.server_address[1]}"
        threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
        running.append(proxy)
        return bucket

    try:
        yield serve
    finally:
        for proxy in running:
            proxy.shutdown()
            proxy.server_close()
