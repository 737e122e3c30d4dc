"""A directory as a slow shared file system shows it, to all programs of this machine alike: a FUSE
mount that holds each answer back. The command runs while it is mounted.

    python tools/slow/slow.py SRC MOUNT --latency 1ms --stream 20M --total 1:20M,4:60M -- COMMAND

Each look-up, stat, open, read and listing takes the latency. Here an open file is read at 20 MB/s
at most, all files together at 20 MB/s if one is read at a time, at 60 MB/s if four are. As with
NFS, the kernel believes names and attributes for a second (--cache), and caches content; with
--direct (Linux 6.6 and later) each read comes to the server. A new mount begins cold: the kernel
has neither names nor content of it. At the end the calls and bytes of each kind are printed. Needs
/dev/fuse, and root or fusermount3. From Python: `SlowTree`.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build"
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread".split()
KINDS = ("lookup", "stat", "readlink", "open", "read", "readdir", "write", "change")  # as in slow.h
UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
UNITS_BYTES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
STOP_LIMIT_S = 30


class Count(NamedTuple):
    """Calls of one kind, and the bytes that they transferred."""

    calls: int
    bytes: int


class SlowTree:
    """Mounts `source` at `mount`, which may be the same directory, as a slow file system."""

    def __init__(
        self, source: Path, mount: Path, *, latency_s: float | Mapping[str, float] = 0.0,
        stream_bytes_per_s: float = 0.0, total_bytes_per_s: float | Mapping[int, float] = 0.0,
        cache_s: float = 1.0, direct: bool = False, writable: bool = False,
    ) -> None:  # fmt: skip
        """latency_s: of each call to the server, or by kind (KINDS). stream_bytes_per_s: of each
        open file; total_bytes_per_s: of all together, or by how many are read at a time; 0: no
        limit. cache_s: how long the kernel may believe names and attributes. It keeps the content
        of files that are unchanged at their next open; direct: it keeps none, as if there were no
        memory for it, and each read comes to the server as the program makes it."""
        self.source, self.mount = source.resolve(), mount.resolve()
        if self.source in self.mount.parents:
            raise ValueError(f"the mount {self.mount} lies in its source {self.source}")
        by_kind = latency_s if isinstance(latency_s, Mapping) else dict.fromkeys(KINDS, latency_s)
        if unknown := set(by_kind) - set(KINDS):
            raise ValueError(f"no kind of call: {', '.join(sorted(unknown))}")
        total = total_bytes_per_s
        rates = rates_by_readers(total if isinstance(total, Mapping) else {1: total})
        if direct and tuple(map(int, re.findall("[0-9]+", os.uname().release)[:2])) < (6, 6):
            raise ValueError("direct needs Linux 6.6: older kernels do not map such files")
        latencies_ns = [by_kind.get(kind, 0.0) * 1e9 for kind in KINDS]
        lists = (latencies_ns, [stream_bytes_per_s], rates)
        texts = [",".join(map(str, each)) for each in lists]
        self._options = (round(cache_s * 1e9), int(direct), *texts)
        self._writable = writable
        self._counts = tempfile.TemporaryFile()  # noqa: SIM115
        self._counts.truncate(16 * len(KINDS))
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Path:
        """Mounts it; returns the mount point."""
        program = compile_server()
        self.mount.mkdir(parents=True, exist_ok=True)
        root = os.open(self.source, os.O_PATH | os.O_DIRECTORY)
        connection = connect(self.mount, self.source, self._writable)
        fds = (connection, root, self._counts.fileno())
        self._server = subprocess.Popen(
            [program, *map(str, (*fds, self.mount, *self._options))], pass_fds=fds,
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        os.close(root)
        os.close(connection)
        return self.mount

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        """Unmounts it, even if a program uses it still."""
        assert self._server is not None
        self._server.communicate(b"x", timeout=STOP_LIMIT_S)
        if self._server.returncode != 0:
            raise RuntimeError(f"the server of {self.mount} ended with {self._server.returncode}")

    def counts(self) -> dict[str, Count]:
        """Returns all calls and bytes so far, by kind."""
        numbers = struct.iter_unpack("=QQ", os.pread(self._counts.fileno(), 16 * len(KINDS), 0))
        return {kind: Count(*each) for kind, each in zip(KINDS, numbers, strict=True)}


def rates_by_readers(curve: Mapping[int, float]) -> list[float]:
    """Returns the rate for 1, 2, ... readers: linear between the points of a curve, and constant
    beyond them."""
    points = sorted(curve.items())
    limited = all(readers > 0 and rate > 0 for readers, rate in points)
    if not points or (not limited and points != [(1, 0.0)]):
        raise ValueError(f"no rates by readers: {dict(curve)}")
    rates = [points[0][1]] * points[0][0]
    for (low, rate), (high, next_rate) in pairwise(points):
        step = (next_rate - rate) / (high - low)
        rates += [rate + step * (readers - low) for readers in range(low + 1, high + 1)]
    return rates


def compile_server() -> Path:
    """Compiles the server, unless this version is there already."""
    files = sorted((HERE / "server").glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    made = BUILD / f"slow-{digest}"
    if not made.exists():
        BUILD.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
            fresh = Path(scratch) / "server"
            sources = [path for path in files if path.suffix == ".c"]
            compiler = shlex.split(os.environ.get("CC", "cc"))
            subprocess.run([*compiler, *FLAGS, "-o", fresh, *sources], check=True)
            fresh.rename(made)
    return made


def connect(mount: Path, source: Path, writable: bool) -> int:
    """Mounts; returns the descriptor of the connection. OSError: it is not possible here."""
    options = "default_permissions" + ("" if writable else ",ro")
    if os.geteuid() != 0:
        return connect_by_fusermount(mount, f"{options},fsname=slow,subtype=slow")
    connection = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    mode = os.stat(mount).st_mode
    data = f"fd={connection},rootmode={mode:o},user_id=0,group_id=0,allow_other,default_permissions"
    flags = MS_NOSUID | MS_NODEV | (0 if writable else MS_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    words = (os.fsencode(source), os.fsencode(mount), b"fuse.slow")
    if libc.mount(*words, ctypes.c_ulong(flags), data.encode()) != 0:
        number = ctypes.get_errno()
        os.close(connection)
        raise OSError(number, f"cannot mount: {os.strerror(number)}", str(mount))
    return connection


def connect_by_fusermount(mount: Path, options: str) -> int:
    """Does what connect does, for an ordinary user."""
    if shutil.which("fusermount3") is None:
        raise OSError("an ordinary user can mount only by fusermount3, which is not installed")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            ["fusermount3", "-o", options, "--", mount], pass_fds=[theirs.fileno()],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise OSError(f"fusermount3 does not mount {mount}")
        return socket.recv_fds(ours, 1, 1)[1][0]


def amount(text: str, units: Mapping[str, float]) -> float:
    """Returns a number with a unit, such as 1.5ms."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text)
    if match is None or match[2] not in units:
        raise ValueError(f"{text}: not a number with a unit of {', '.join(units)}")
    return float(match[1]) * units[match[2]]


def parse_latency(text: str) -> dict[str, float]:
    """Returns seconds by kind: of all from 1ms, and of one from read=2ms, with commas between."""
    found: dict[str, float] = {}
    for each in text.split(","):
        kind, _, value = each.rpartition("=")
        found |= dict.fromkeys([kind] if kind else KINDS, amount(value, UNITS_S))
    return found


def parse_curve(text: str) -> dict[int, float]:
    """Returns rates by readers, from 20M or 1:20M,4:60M."""
    parts = [each.rpartition(":") for each in text.split(",")]
    return {int(readers or 1): amount(rate, UNITS_BYTES) for readers, _, rate in parts}


def parse_rate(text: str) -> float:
    """Returns bytes a second."""
    return amount(text, UNITS_BYTES)


def parse_arguments(words: list[str]) -> tuple[SlowTree, Path | None, list[str]]:
    """Returns the tree, the file for counts and the command."""
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        usage="slow.py SRC MOUNT [options] -- COMMAND", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("source", metavar="SRC", type=Path)
    add("mount", metavar="MOUNT", type=Path, help="a directory, which may be SRC")
    add("--latency", default="0s", type=parse_latency, help="of each call: 1ms, or 1ms,read=2ms")
    add("--stream", default="0", type=parse_rate, help="bytes a second of an open file: 20M")
    add("--total", default="0", type=parse_curve, help="of all: 200M, or by readers: 1:20M,4:60M")
    add("--cache", default=1.0, type=float, help="seconds that names and attributes are kept")
    add("--direct", action="store_true", help="no content is kept, as if there were no memory")
    add("--write", action="store_true", help="files can be written, too")
    add("--counts", type=Path, help="a file for the counts, written at the end and at SIGUSR1")
    options, command = parser.parse_args(words[:cut]), words[cut + 1 :]
    if not command:
        parser.error("there is no command")
    try:
        tree = SlowTree(
            options.source, options.mount, latency_s=options.latency, cache_s=options.cache,
            stream_bytes_per_s=options.stream, total_bytes_per_s=options.total,
            direct=options.direct, writable=options.write,
        )  # fmt: skip
    except ValueError as error:
        parser.error(str(error))
    return tree, options.counts, command


def run(command: list[str]) -> int:
    """Runs a command to its end; returns its exit code as a shell does."""
    process = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the command, too
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    return code if code >= 0 else 128 - code


def main() -> int:
    """Runs the command of the command line; says at the end what was called."""
    tree, counts_file, command = parse_arguments(sys.argv[1:])

    def write_counts(*_: object) -> None:
        if counts_file is not None:
            said = {kind: each._asdict() for kind, each in tree.counts().items()}
            counts_file.write_text(json.dumps(said) + "\n")

    signal.signal(signal.SIGUSR1, write_counts)
    try:
        with tree:
            code = run(command)
    except OSError as error:
        sys.exit(f"slow: {error}")
    write_counts()
    for kind, each in tree.counts().items():
        print(f"slow: {kind:8} {each.calls:12,} calls {each.bytes:18,} bytes", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
