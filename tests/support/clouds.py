"""Buckets of Google's and Azure's kind for tests, behind the proxy of buckets.py."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from buckets import BUCKET, SECRET, TestBucket, bucket_server, proxies

# gs: of moto's server, which reads Google's requests as it does those of S3, to which they are
# alike; fake-gs: of fake-gcs-server; az: of Azurite.
KINDS = ("gs", "fake-gs", "az")
_ACCOUNT = "devstoreaccount1"  # Azurite's, with its key
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_LISTENS = re.compile(r"(?:listens on|started at) http://127\.0\.0\.1:(\d+)")
_numbers = itertools.count()


class CloudTestBucket(TestBucket):
    """A TestBucket of another kind. kind: one of KINDS."""

    __test__ = False

    def __init__(self, kind: str, name: str, backend: Any, server: tuple[str, int]) -> None:
        super().__init__(backend, server)
        self.kind, self.is_azure = kind, kind == "az"
        self.name = name
        self.address = f"{kind[-2:]}://{name}"
        self.path = f"/{_ACCOUNT}/{name}" if self.is_azure else f"/{name}"

    @property
    def env(self) -> dict[str, str]:
        if self.is_azure:
            return {
                "AZURE_STORAGE_ENDPOINT": f"{self.url}/{_ACCOUNT}",
                "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
            }
        return {"GOOGLE_BASE_URL": self.url, "GCE_METADATA_HOST": self.url.removeprefix("http://")}

    @property
    def secret(self) -> str:
        return _KEY if self.is_azure else SECRET

    def asked(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, Any, bytes]:
        if "/computeMetadata/" in path:  # obstore asks the machine for a token
            return 200, [], json.dumps({"access_token": SECRET, "expires_in": 3600}).encode()
        headers = {name.lower(): value for name, value in headers.items()}
        if not self.is_azure:  # moto takes none but Amazon's
            headers["authorization"] = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/x"
        # By this name fake-gcs-server tells what is asked for.
        headers["host"] = f"{self._server[0]}:{self._server[1]}"
        return super().asked(method, path, headers, body)


@contextlib.contextmanager
def cloud_server(kind: str) -> Iterator[Callable[[], CloudTestBucket]]:
    """Does what bucket_server does, for buckets of one kind. Skips the test if the server is not
    installed."""
    pytest.importorskip("obstore", reason="obstore is not installed (extra `objects`)")
    servers = {"gs": _moto, "fake-gs": _fake_gcs, "az": _azurite}
    with servers[kind]() as make, proxies() as serve:
        yield lambda: serve(make())


@contextlib.contextmanager
def _moto() -> Iterator[Callable[[], CloudTestBucket]]:
    with bucket_server() as make:

        def of_google() -> CloudTestBucket:
            bucket = make()
            return CloudTestBucket("gs", BUCKET, bucket._backend, bucket._server)

        yield of_google


@contextlib.contextmanager
def _fake_gcs() -> Iterator[Callable[[], CloudTestBucket]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = ["fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port", port]
    command += ["-public-host", f"127.0.0.1:{port}", "-backend", "memory"]
    with _running(command) as where:

        def make() -> CloudTestBucket:
            name, backend = f"{BUCKET}{next(_numbers)}", _FakeGcs(where)
            backend.ask("POST", "/storage/v1/b?project=tests", json.dumps({"name": name}).encode())
            return CloudTestBucket("fake-gs", name, backend, where)

        yield make


@contextlib.contextmanager
def _azurite() -> Iterator[Callable[[], CloudTestBucket]]:
    command = ["azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", "0", "--disableTelemetry"]
    with _running([*command, "--inMemoryPersistence", "--skipApiVersionCheck"]) as where:

        def make() -> CloudTestBucket:
            name, backend = f"{BUCKET}{next(_numbers)}", _Azurite(where)
            backend.ask("PUT", f"/{_ACCOUNT}/{name}", {"restype": "container"})
            return CloudTestBucket("az", name, backend, where)

        yield make


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[tuple[str, int]]:
    """Runs a server, and yields its address. Skips the test if there is none."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    out, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=out, stderr=both, text=True) as server:
        try:
            assert server.stdout is not None
            found = next(filter(None, map(_LISTENS.search, server.stdout)))
            threading.Thread(target=server.stdout.read, daemon=True).start()
            yield "127.0.0.1", int(found[1])
        finally:
            server.terminate()


class _FakeGcs:
    """Writes objects of fake-gcs-server."""

    def __init__(self, where: tuple[str, int]) -> None:
        self._where = where

    def ask(self, method: str, path: str, body: bytes = b"") -> None:
        _asked(self._where, method, path, body, {"Content-Type": "application/json"})

    def put_object(self, bucket: str, key: str, content: bytes) -> None:
        query = urlencode({"uploadType": "media", "name": key})
        self.ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", content)

    def delete_object(self, bucket: str, key: str) -> None:
        self.ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}")


class _Azurite:
    """Writes objects of Azurite, with signed requests."""

    def __init__(self, where: tuple[str, int]) -> None:
        self._where = where

    def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        headers = {"x-ms-blob-type": "BlockBlob"} if not query and method == "PUT" else {}
        headers |= {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        path, query = quote(path), query or {}
        lines = [method, "", "", str(len(body) or ""), *[""] * 8]
        lines += [f"{name}:{value}" for name, value in sorted(headers.items())]
        lines += [f"/{_ACCOUNT}{path}", *(f"{name}:{query[name]}" for name in sorted(query))]
        signed = hmac.new(base64.b64decode(_KEY), "\n".join(lines).encode(), hashlib.sha256)
        signature = base64.b64encode(signed.digest()).decode()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
        _asked(self._where, method, f"{path}?{urlencode(query)}" if query else path, body, headers)

    def put_object(self, bucket: str, key: str, content: bytes) -> None:
        self.ask("PUT", f"/{_ACCOUNT}/{bucket}/{key}", body=content)

    def delete_object(self, bucket: str, key: str) -> None:
        self.ask("DELETE", f"/{_ACCOUNT}/{bucket}/{key}")


def _asked(
    where: tuple[str, int], method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> None:
    connection = HTTPConnection(*where, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (method, path, answer.status, text)
    finally:
        connection.close()
