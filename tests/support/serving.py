"""What the tests of the daemon and the wrapper share: a dataset, a local directory, a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import inprocess

from fanstore.launch.probe import NAME

LIMIT_S = 60.0

READ_ALL = (
    "import hashlib, os, sys\n"
    "root = os.environ['FANSTORE_MOUNT_PREFIX']\n"
    "digest = hashlib.sha256()\n"
    "for name in sorted(os.listdir(root)):\n"
    "    digest.update(open(os.path.join(root, name), 'rb').read())\n"
    "print(digest.hexdigest())\n"
)


def wait_for(condition: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Waits until `condition` holds; fails naming `what` if it never does."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, f"timed out: {what}"
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    """The ids of a process's children."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def process_name(pid: int) -> str:
    """What ps shows; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _stat_of(pid: int) -> list[str]:
    """What /proc says of a process from its state on; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def runs(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    stat = _stat_of(pid)
    return stat != [] and stat[0] not in "ZX"


def started(pid: int) -> str:
    """When a process was started, which tells it from a later one of the same number; "" of one
    that is gone."""
    stat = _stat_of(pid)
    return stat[19] if stat else ""


def daemon_of(wrapper: int) -> int:
    """The id of a wrapper's daemon, 0 where it has none yet."""
    return next((p for p in children(wrapper) if process_name(p) == "fanstore-daemon"), 0)


def is_probe(pid: int) -> bool:
    """Whether a child of a wrapper only proves that programs start here, or has ended."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
    return arguments == b"" or NAME.encode() in arguments


def command_of(wrapper: int) -> int:
    """The id of a wrapper's command, 0 where it has none yet."""
    others = ("fanstore-daemon", process_name(wrapper), "")
    found = [p for p in children(wrapper) if process_name(p) not in others and not is_probe(p)]
    return found[0] if found else 0


@dataclass
class Stage:
    """A directory for one test: datasets below it, and a local directory of its own."""

    path: Path
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def local(self) -> Path:
        """The local directory."""
        return self.path / "local"

    @property
    def mount(self) -> Path:
        """A prefix that is not there."""
        return self.path / "mount"

    @property
    def env(self) -> dict[str, str]:
        """An environment in which nothing but this test's directory is used."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FANSTORE", "SLURM"))}
        return {
            **kept, "FANSTORE_CONFIG": "", "FANSTORE_LOCAL_DIR": str(self.local),
            "FANSTORE_KEEP_LEARNT": "off",
        }  # fmt: skip

    def source(self, name: str = "plain", files: dict[str, bytes] | None = None) -> Path:
        """A plain directory with `files`, by default twenty of 1,000 bytes and more."""
        directory = self.path / name
        directory.mkdir()
        if files is None:
            files = {f"f{n:02}": bytes([n]) * (1000 + n) for n in range(20)}
        for relpath, content in files.items():
            (directory / relpath).parent.mkdir(parents=True, exist_ok=True)
            (directory / relpath).write_bytes(content)
        self.files = files
        return directory

    def dataset(self, source: Path | None = None, name: str = "data", *options: str) -> Path:
        """A dataset of two packs. This process prepares it, which is quicker than another one."""
        target = self.path / name
        source = self.source() if source is None else source
        inprocess.call("prepare", source, target, "--partitions", "2", "--quiet", *options)
        return target

    def call(
        self, *arguments: str, code: int = 0, limit_s: float = LIMIT_S, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs fanstore to its end and compares the exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "fanstore", *arguments],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done

    def run(
        self, dataset: Path, *command: str, options: tuple[str, ...] = (), code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """`fanstore run` of `command` with the dataset at `mount`."""
        where = ("--dataset", str(dataset), "--mount", str(self.mount))
        return self.call("run", *where, *options, "--", *command, code=code)

    @contextlib.contextmanager
    def running(
        self, *arguments: str, stderr: int | None = subprocess.PIPE, **env: str
    ) -> Iterator[subprocess.Popen[str]]:
        """fanstore while it runs; killed, if it still does, at the end."""
        with subprocess.Popen(
            [sys.executable, "-m", "fanstore", *arguments],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)

    def status(self) -> dict[str, Any]:
        """What the daemon says of itself; asked by this process, which is quicker than another."""
        found = inprocess.call("status", "--json", "--local-dir", self.local)
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    def leftovers(self) -> list[str]:
        """What is in the local directory, and the prefix."""
        found = [str(p.relative_to(self.path)) for p in self.local.rglob("*")]
        return found + (["mount"] if self.mount.exists() else [])


def make_stage(path: Path) -> Stage:
    """A stage in an empty directory."""
    stage = Stage(path)
    stage.local.mkdir()
    return stage


def shared_memory() -> set[str]:
    """What FanStore may have made in shared memory; not the directories of the benchmarks and of
    all jobs with `--stage memory` there, whose tests may run beside this one."""
    names = os.listdir("/dev/shm")
    others = ("fanstore-bench-", ".fanstore-")
    return {n for n in names if "fanstore" in n and not n.startswith(others)}


def flip(path: Path, offset: int) -> None:
    """Changes one byte of a file."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)
        stream.seek(offset)
        stream.write(bytes([byte[0] ^ 0xFF]))


def find_content(dataset: Path, content: bytes) -> tuple[Path, int]:
    """The pack that holds `content`, and where."""
    for pack in sorted(dataset.glob("pack-*.fsp")):
        at = pack.read_bytes().find(content)
        if at >= 0:
            return pack, at
    raise AssertionError("the content is in no pack")
