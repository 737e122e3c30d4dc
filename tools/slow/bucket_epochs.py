"""How long two epochs of small objects take, read from a server that answers after a delay: by the
job alone, which fetches each object itself, and with FanStore, without and with a known order.

    python tools/slow/bucket_epochs.py --objects 2000 --bytes 112640 --delay 0.05 --threads 8

The server counts the requests, also those that are under way at a time. It runs in a process of its
own on this machine, and so takes a part of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ENV = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}

# Reads the files (or the objects, by their keys) in the order of each epoch, with some threads.
READER = """
import json, os, sys, threading, time
top, orders, count = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
def read_file(key):
    with open(os.path.join(top, key), "rb") as stream:
        return len(stream.read())
read = read_file
if top == "alone":
    import obstore
    store = obstore.store.S3Store(
        "b", endpoint=os.environ["AWS_ENDPOINT_URL"], client_options={"allow_http": True}
    )
    read = lambda key: len(obstore.get(store, "p/" + key).bytes())
def work(keys):
    for key in keys:
        assert read(key) == int(sys.argv[4])
for order in orders:
    begun = time.monotonic()
    threads = [threading.Thread(target=work, args=(order[n::count],)) for n in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(f"{time.monotonic() - begun:.2f}", end=" ", flush=True)
"""


class Server:
    """Answers ListObjectsV2 and GET for objects of one size, whose content is their number."""

    def __init__(self, names: list[str], size: int, delay_s: float) -> None:
        self._keys = [f"p/{name}" for name in names]
        self._known = set(self._keys)
        self._size = size
        self._delay_s = delay_s
        self._counts = {"gets": 0, "now": 0, "most": 0}

    async def run(self, ready: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        ready.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
                url = urlsplit(head.split(" ", 2)[1])
                if url.path == "/counts":
                    body, more = json.dumps(self._counts).encode(), ""
                    self._counts |= {"gets": 0, "most": 0}
                elif url.path == "/b":
                    body, more = self._page({k: v[0] for k, v in parse_qs(url.query).items()}), ""
                else:
                    body, more = await self._object(url.path.removeprefix("/b/"), head)
                status = "206 Partial Content" if "Content-Range" in more else "200 OK"
                start = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
                writer.write(start.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _page(self, query: dict[str, str]) -> bytes:
        after = query.get("continuation-token") or query.get("start-after", "")
        keys = [key for key in self._keys if key > after] if "delimiter" not in query else []
        when = datetime.datetime.fromtimestamp(0, datetime.timezone.utc).isoformat()
        rows = "".join(
            f"<Contents><Key>{key}</Key><Size>{self._size}</Size><ETag>&quot;e&quot;</ETag>"
            f"<LastModified>{when}</LastModified></Contents>" for key in keys[:1000]
        )  # fmt: skip
        folders = sorted({key[: key.rindex("/") + 1] for key in self._keys})
        if "delimiter" in query:
            rows = "".join(
                f"<CommonPrefixes><Prefix>{f}</Prefix></CommonPrefixes>" for f in folders
            )
        more = len(keys) > 1000
        token = f"<NextContinuationToken>{keys[999]}</NextContinuationToken>" if more else ""
        last = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return f"<ListBucketResult>{rows}{last}</ListBucketResult>".encode()

    async def _object(self, key: str, head: str) -> tuple[bytes, str]:
        assert key in self._known, key
        counts = self._counts
        counts["gets"] += 1
        counts["now"] += 1
        counts["most"] = max(counts["most"], counts["now"])
        await asyncio.sleep(self._delay_s)
        counts["now"] -= 1
        more = 'ETag: "e"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n'
        span = re.search(r"(?i)range: bytes=(\d+)-(\d+)", head)
        if span is None:
            return bytes(self._size), more
        return bytes(int(span[2]) + 1 - int(span[1])), (
            f"{more}Content-Range: bytes {span[1]}-{span[2]}/{self._size}\r\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=110 << 10)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before an answer")
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    names = [f"d{n % 20:02}/{n:06}" for n in sorted(range(options.objects), key=lambda n: n % 20)]
    ready: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = Server(sorted(names), options.bytes, options.delay)
    process = multiprocessing.Process(target=lambda: asyncio.run(server.run(ready)), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{ready.get(timeout=30)}"
    with tempfile.TemporaryDirectory() as scratch:
        measure(Path(scratch), url, names, options)


def measure(scratch: Path, url: str, names: list[str], options: argparse.Namespace) -> None:
    orders = [random.Random(epoch).sample(names, len(names)) for epoch in range(2)]
    (scratch / "orders").write_text(json.dumps(orders))
    (scratch / "order").write_text("".join(f"{scratch}/m/{key}\n" for o in orders for key in o))
    (scratch / "local").mkdir()
    run = [
        sys.executable,
        "-m",
        "fanstore",
        "run",
        "s3://b/p",
        "--mount",
        f"{scratch}/m",
        "--quiet",
    ]
    run += ["--local-dir", f"{scratch}/local", "--output-dir", f"{scratch}/out"]
    ways = {
        "the job alone": ([], "alone"),
        "with FanStore": ([*run, "--"], f"{scratch}/m"),
        "with FanStore, order known": ([*run, "--order", f"{scratch}/order", "--"], f"{scratch}/m"),
    }
    more = {"AWS_ENDPOINT_URL": url, "XDG_CACHE_HOME": str(scratch), "FANSTORE_KEEP_LEARNT": "off"}
    print("way: seconds of each epoch; requests for objects; most at a time")
    for way, (before, top) in ways.items():
        job = [sys.executable, "-c", READER, top, f"{scratch}/orders", str(options.threads)]
        command = [*before, *job, str(options.bytes)]
        env = {**os.environ, **ENV, **more}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, timeout=600)
        with urllib.request.urlopen(f"{url}/counts", timeout=30) as answer:
            counts = json.load(answer)
        print(f"{way}: {done.stdout.decode().strip()}; {counts['gets']:,}; {counts['most']}")


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
