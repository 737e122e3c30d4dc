"""A bucket for measurements: nginx serves the objects, which are files of a directory. In front of
it, this process answers LIST, counts the requests for objects, and lets each wait as on a link of a
given rate, behind which the server answers after a delay."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import datetime
import json
import multiprocessing
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

BUCKET = "b"
_NGINX = """\
{user}daemon off; pid {folder}/pid; worker_processes 1; error_log stderr error;
events {{ worker_connections 2048; }}
http {{
  access_log off; sendfile on; keepalive_requests 10000000; default_type application/octet-stream;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  upstream front {{ server unix:{folder}/front; keepalive 256; keepalive_requests 10000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=512;
    location / {{
      proxy_pass http://front; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
    location /files/ {{ internal; alias {objects}/; }}
  }}
}}
"""


class _Front:
    """Answers LIST; tells nginx to send the file of an object when its time has come."""

    def __init__(self, objects: Path, rate: float, delay_s: float) -> None:
        self._rate, self._delay_s = rate, delay_s
        self._free_s = 0.0  # when the link has sent all that was asked for
        files = (path for path in objects.rglob("*") if path.is_file())
        self._stats = {str(path.relative_to(objects)): path.stat() for path in files}
        self._keys = sorted(self._stats)
        self._gets: Counter[str] = Counter()
        self._now = self._most = 0
        self._first_s = 0.0

    def run(self, path: str, ready: Any) -> None:
        asyncio.run(self._run(path, ready))

    async def _run(self, path: str, ready: Any) -> None:
        server = await asyncio.start_unix_server(self._serve, path, backlog=512)
        ready.put(None)
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
                writer.write(await self._answer(head))
                await writer.drain()
        writer.close()

    async def _answer(self, head: str) -> bytes:
        method, target, _ = head.split(" ", 2)
        url = urlsplit(target)
        bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
        more, status, body = "", "200 OK", b""
        if bucket == "counts":
            body = self._counts()
        elif not key:
            body = self._page({k: v[0] for k, v in parse_qs(url.query).items()})
        elif key in self._stats:
            if method == "GET":
                await self._wait_for(key, head)
            more = f"X-Accel-Redirect: /files/{quote(key)}\r\n"
        else:
            status = "404 Not Found"
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body

    async def _wait_for(self, key: str, head: str) -> None:
        size = self._stats[key].st_size
        if span := re.search(r"(?i)range: bytes=(\d+)-(\d*)", head):
            size = min(int(span[2] or size), size - 1) + 1 - int(span[1])
        now_s = asyncio.get_running_loop().time()
        self._first_s = self._first_s or now_s
        self._gets[key] += 1
        self._now += 1
        self._most = max(self._most, self._now)
        self._free_s = max(self._free_s, now_s) + size / self._rate
        await asyncio.sleep(self._free_s - now_s + self._delay_s)
        self._now -= 1

    def _counts(self) -> bytes:
        """Returns how many requests for objects came since the last call, for how many objects, how
        many were under way at a time, and when the first one came; 0: none."""
        gets, most, first_s = self._gets, self._most, self._first_s
        self._gets, self._most, self._first_s = Counter(), 0, 0.0
        found = {"gets": gets.total(), "objects": len(gets), "most": most, "first_s": first_s}
        return json.dumps(found).encode()

    def _page(self, query: dict[str, str]) -> bytes:
        """Returns a page of ListObjectsV2."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most, rows, last = int(query.get("max-keys", "1000")), list[str](), ""
        at = bisect.bisect_left(self._keys, prefix)
        at = max(at, bisect.bisect_right(self._keys, after))
        while at < len(self._keys) and len(rows) < most and self._keys[at].startswith(prefix):
            last = self._keys[at]
            folder, is_folder, _ = last[len(prefix) :].partition(delimiter or "\0")
            if is_folder:
                name = prefix + folder + delimiter
                rows.append(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")
                last = name + "~"  # comes after all keys of the tool's that begin with this name
                at = bisect.bisect_left(self._keys, last)
            else:
                rows.append(self._row(last))
                at += 1
        is_cut = at < len(self._keys) and self._keys[at].startswith(prefix)
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if is_cut else ""
        return (
            '<?xml version="1.0"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{prefix}</Prefix><KeyCount>{len(rows)}</KeyCount>"
            f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}"
            f"{''.join(rows)}</ListBucketResult>"
        ).encode()

    def _row(self, key: str) -> str:
        found = self._stats[key]
        seconds = int(found.st_mtime)
        when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        etag = f"&quot;{seconds:x}-{found.st_size:x}&quot;"  # nginx's
        return (
            f"<Contents><Key>{key}</Key><LastModified>{when:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>{etag}</ETag><Size>{found.st_size}</Size></Contents>"
        )


class BucketServer:
    """The server of a bucket. url: its endpoint."""

    def __init__(self, url: str) -> None:
        self.url = url

    def counts(self) -> dict[str, Any]:
        """Returns what came since the last call, as _Front._counts does."""
        with urllib.request.urlopen(f"{self.url}/counts", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextlib.contextmanager
def bucket_server(objects: Path, rate: float, delay_s: float) -> Iterator[BucketServer]:
    """Serves the files below a directory, whose names need no quotes in XML, as objects of BUCKET.
    rate: of all answers together, in bytes a second."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ready = fork.Queue()
        work = _Front(objects, rate, delay_s)
        front = fork.Process(target=work.run, args=(f"{folder}/front", ready), daemon=True)
        front.start()
        ready.get(timeout=30)
        os.chmod(folder, 0o755)  # for nginx's worker, which is no root
        port = _free_port()
        user = "user root; " if os.getuid() == 0 else ""
        text = _NGINX.format(user=user, folder=folder, port=port, objects=objects)
        Path(folder, "conf").write_text(text)
        nginx = subprocess.Popen(["nginx", "-p", folder, "-c", f"{folder}/conf"])
        try:
            server = BucketServer(f"http://127.0.0.1:{port}")
            _wait(server)
            yield server
        finally:
            nginx.terminate()
            nginx.wait()
            front.terminate()
            front.join()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _wait(server: BucketServer) -> None:
    for left in reversed(range(100)):
        try:
            server.counts()
            return
        except OSError:
            if not left:
                raise
            time.sleep(0.1)
