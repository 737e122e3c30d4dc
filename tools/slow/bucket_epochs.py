"""How long the epochs of a torch job take that reads small objects of a bucket, in several ways
(WAYS). Each job begins cold. nginx serves the objects on this machine, behind a proxy that delays
each answer, and answers at most so many bytes a second (bucket_server.py).

    python tools/slow/bucket_epochs.py --ranks 1 2 4 --python VENV/bin/python
    python tools/slow/bucket_epochs.py --ranks 1 --objects 5000 --python VENV/bin/python --ways \
        fanstore local rclone-full rclone-off s3fs streaming

Each rank stands for a node. --python: an interpreter with torch, for s3fs and streaming also with
s3fs or mosaicml-streaming. A time is that of the slowest rank, in seconds; in brackets it is
divided by the least that the first epoch can take: what the link or the job's computing needs.
FanStore's first requests come while the job still loads torch: the line says how long before its
first epoch. With --more "--stage lazy" they come with the first reads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bucket_server import BUCKET, BucketServer, bucket_server
from epochs import make_files, run
from slow import parse_rate

HERE = Path(__file__).resolve().parent
WAYS = {
    "fanstore": "FanStore serves the bucket",
    "local": "the files are on the local disk before",
    "rclone-full": "rclone mounts the bucket, and keeps on the local disk what was read",
    "rclone-off": "rclone mounts the bucket, and keeps nothing",
    "s3fs": "the job's dataset fetches each object with s3fs",
    "streaming": "the job is written for mosaicml-streaming, of which the bucket has shards",
}
_ENV = {
    "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1",
    "RCLONE_CONFIG_R_TYPE": "s3", "RCLONE_CONFIG_R_PROVIDER": "Other",
    "RCLONE_CONFIG_R_ENV_AUTH": "true", "RCLONE_CONFIG_R_LIST_VERSION": "2",
    "FANSTORE_NEIGHBOURS": "off", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
}  # fmt: skip
_SHARDS = """
import sys
from pathlib import Path
from streaming import MDSWriter
with MDSWriter(out=sys.argv[2], columns={"x": "bytes"}) as out:
    for path in sorted(Path(sys.argv[1]).rglob("*")):
        if path.is_file():
            out.write({"x": path.read_bytes()})
"""


class Trial:
    """A job of some ranks on the objects, which are also files below `files`."""

    def __init__(
        self, server: BucketServer, files: Path, ranks: int, options: argparse.Namespace
    ) -> None:
        self._server, self._files, self._ranks, self._options = server, files, ranks, options
        total, compute = options.objects * options.bytes, parse_rate(options.compute)
        self._least_s = total / parse_rate(options.rate)
        if compute:
            self._least_s = max(self._least_s, total / ranks / compute)

    def command(self, way: str, scratch: Path) -> str:
        """Returns the shell command of a rank, which is $RANK."""
        options, node = self._options, f"{scratch}/node$RANK"
        work = f"--ranks {self._ranks} --epochs {options.epochs}"
        work += f" --compute {parse_rate(options.compute)}"
        job = f"{options.python} {HERE / 'epoch_job.py'} {work}"
        if way == "local":
            return f"exec {job} {self._files}/p"
        if way in ("s3fs", "streaming"):
            where = f"{BUCKET}/p" if way == "s3fs" else f"{BUCKET}/shards --local {node}"
            return f"exec {options.python} {HERE / 'bucket_job.py'} {work} {where}"
        if way == "fanstore":
            places = f"--mount {node}/m --local-dir {node} --output-dir {scratch}/out --quiet"
            serve = f"{sys.executable} -m fanstore run s3://{BUCKET}/p {places} {options.more}"
            return f"mkdir {node}; exec {serve} -- {job} {node}/m"
        mode = way.removeprefix("rclone-")
        places = f"{node}/m --cache-dir {node}/cache --daemon --read-only --use-server-modtime"
        serve = f"rclone mount r:{BUCKET}/p {places} --vfs-cache-mode {mode}"
        return f"mkdir -p {node}/m; {serve} && {job} {node}/m; c=$?; umount {node}/m; exit $c"

    def run(self, way: str) -> None:
        """Runs the job in one way, and prints a line."""
        with tempfile.TemporaryDirectory(dir=self._options.dir) as folder:
            os.environ["WORLD_SIZE"] = str(self._ranks)
            self._server.counts()
            told = run(self.command(way, Path(folder)), self._ranks, Path(folder))
        counts, load = self._server.counts(), os.getloadavg()[0]
        epochs = [max(rank["epochs"][n][1] for rank in told) for n in range(self._options.epochs)]
        early_s = min(rank["begun_s"] for rank in told) - counts["first_s"]
        early = f", from {max(early_s, 0):.1f} s before" if counts["gets"] else ""
        said = "  ".join(f"{each:6.2f} ({each / self._least_s:5.2f})" for each in epochs)
        print(
            f"{way:11} {self._ranks} ranks  {said}  {counts['gets']:,} requests for "
            f"{counts['objects']:,} objects, {counts['most']} at a time{early}; load {load:.1f}",
            flush=True,
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=110 << 10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before an answer")
    parser.add_argument("--rate", default="80M", help="of the link: bytes a second")
    parser.add_argument("--compute", default="100M", help="bytes a second that a rank consumes")
    parser.add_argument("--more", default="", help="more options of fanstore run")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["fanstore", "local"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--dir", help="for the objects, and the nodes' local directories")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    rate = parse_rate(options.rate)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        make_files(Path(folder, "p"), options.objects, options.bytes)
        if "streaming" in options.ways:
            words = [options.python, "-c", _SHARDS, f"{folder}/p", f"{folder}/shards"]
            subprocess.run(words, check=True)
        with bucket_server(Path(folder), rate, options.delay) as server:
            more = {"AWS_ENDPOINT_URL": server.url, "RCLONE_CONFIG_R_ENDPOINT": server.url}
            os.environ.update({**_ENV, **more, "S3_ENDPOINT_URL": server.url})
            os.environ.pop("AWS_CA_BUNDLE", None)  # rclone cannot use it
            print("                      epochs (s)")
            for ranks in options.ranks:
                trial = Trial(server, Path(folder), ranks, options)
                for way in options.ways:
                    trial.run(way)


if __name__ == "__main__":
    main()
