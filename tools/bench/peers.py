"""The peers that are compared: FanStore, the source directory, and other ways to serve the same
files.

Each peer is a context manager that yields a `Peer`, or raises `Absent` with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from results import DIRECTORY, OURS

FANSTORE = [sys.executable, "-m", "fanstore"]
MOUNT_LIMIT_S = 20


class Absent(Exception):
    """A peer cannot take part on this machine. The message says why."""


@dataclass(frozen=True)
class Peer:
    """Files below `root`, and `command`, which starts programs that see them. `dropped`: the files
    or directories whose pages are dropped for cold reads (none: the peer cannot be cold)."""

    name: str
    root: Path
    command: tuple[str, ...] = ()
    dropped: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Place:
    """The source directory, and a directory for files that the peers need."""

    work: Path
    source: Path
    dataset: Path
    kinds: Sequence[str] = field(default_factory=tuple)


def _run(*command: str | Path) -> None:
    """Runs a command to its end. Raises Absent with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        raise Absent(f"{Path(command[0]).name}: {said}")


def _program(*names: str) -> str:
    """Returns the first of the programs that is installed."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise Absent(f"{' or '.join(names)} is not installed")


def _root_only() -> None:
    if os.geteuid() != 0:
        raise Absent("mounting needs root")


def prepare(source: Path, dataset: Path, *options: str) -> None:
    """Makes a dataset of a directory with `fanstore prepare`."""
    command = [*FANSTORE, "prepare", "--quiet", *options, source, dataset]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def directory(place: Place) -> Iterator[Peer]:
    yield Peer(DIRECTORY, place.source, dropped=(place.source,))


@contextmanager
def serving(name: str, place: Place, dataset: Path) -> Iterator[Peer]:
    """Yields a peer of that name: a node daemon that serves `dataset`."""
    local, mount = place.work / f"local-{name}", place.work / f"mount-{name}"
    local.mkdir()
    where = ["--local-dir", str(local)]
    options = ["--mount", str(mount), "--output-dir", str(place.work / "output"), "--quiet"]
    subprocess.run(
        [*FANSTORE, "start", "--dataset", str(dataset), *options, *where],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Peer(name, mount, (*FANSTORE, "exec", *where, "--"), (local,))
    finally:
        subprocess.run([*FANSTORE, "stop", *where], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def fanstore(place: Place) -> Iterator[Peer]:
    with serving(OURS, place, place.dataset) as peer:
        yield peer


@contextmanager
def tmpfs(place: Place) -> Iterator[Peer]:
    shm = Path("/dev/shm")
    needed = sum(f.stat().st_size for f in place.source.rglob("*") if f.is_file())
    if not os.access(shm, os.W_OK) or shutil.disk_usage(shm).free < needed * 2:
        raise Absent("/dev/shm has no room for the files")
    with tempfile.TemporaryDirectory(prefix="fanstore-bench-", dir=shm) as top:
        shutil.copytree(place.source, Path(top) / "source")
        yield Peer("tmpfs", Path(top) / "source")


def _squashfs_image(place: Place) -> Path:
    image = place.work / "image.sqfs"
    if not image.exists():
        tool = _program("mksquashfs")
        _run(tool, place.source, image, "-comp", "lz4", "-noappend", "-quiet", "-no-progress")
    return image


def _loop_of(mount: Path) -> Path:
    """Returns the block device of a mount."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, where = line.split()[:2]
        if where == str(mount):
            return Path(source)
    raise Absent(f"{mount} is not mounted")


@contextmanager
def _mounted(kind: str, image: Path, mount: Path) -> Iterator[Path]:
    """Mounts an image by the kernel. Yields its loop device."""
    _root_only()
    mount.mkdir()
    _run(_program("mount"), "-t", kind, "-o", "loop,ro", image, mount)
    try:
        yield _loop_of(mount)
    finally:
        subprocess.run([_program("umount"), mount], check=True)


@contextmanager
def squashfs(place: Place) -> Iterator[Peer]:
    _root_only()
    image, mount = _squashfs_image(place), place.work / "squashfs"
    with _mounted("squashfs", image, mount) as loop:
        yield Peer("squashfs", mount, dropped=(mount, loop, image))


@contextmanager
def erofs(place: Place) -> Iterator[Peer]:
    _root_only()
    image, mount = place.work / "image.erofs", place.work / "erofs"
    _run(_program("mkfs.erofs"), image, place.source)
    with _mounted("erofs", image, mount) as loop:
        yield Peer("erofs", mount, dropped=(mount, loop, image))


@contextmanager
def _fuse(mount: Path, *command: str | Path) -> Iterator[None]:
    """Runs a FUSE file system in the foreground until the block ends."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Absent("/dev/fuse is not there, or not for this user")
    release = _program("fusermount3", "fusermount")
    mount.mkdir()
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + MOUNT_LIMIT_S
        while not os.path.ismount(mount):
            if server.poll() is not None or time.monotonic() > end:
                assert server.stderr is not None
                said = server.stderr.read().decode().strip() if server.returncode else ""
                raise Absent(f"{Path(command[0]).name}: {said or 'did not mount'}")
            time.sleep(0.02)
        yield
    finally:
        if os.path.ismount(mount):
            subprocess.run([release, "-u", mount], check=True)
        if server.poll() is None:
            server.terminate()
        server.wait(timeout=MOUNT_LIMIT_S)


@contextmanager
def squashfuse(place: Place) -> Iterator[Peer]:
    program, mount = _program("squashfuse_ll"), place.work / "squashfuse"
    image = _squashfs_image(place)
    with _fuse(mount, program, "-f", image, mount):
        yield Peer("squashfuse", mount, dropped=(mount, image))


@contextmanager
def passthrough(place: Place) -> Iterator[Peer]:
    """Yields the peer in which every call goes through a FUSE server to the directory: the SSD-fuse
    of the paper."""
    program, mount = _program("bindfs", "passthrough_ll"), place.work / "passthrough"
    command = [program, "-f", place.source, mount]
    if Path(program).name == "passthrough_ll":
        command = [program, "-f", "-o", f"source={place.source}", mount]
    with _fuse(mount, *command):
        yield Peer("FUSE passthrough", mount, dropped=(mount, place.source))


PEERS: dict[str, Callable[[Place], AbstractContextManager[Peer]]] = {
    "directory": directory,
    "fanstore": fanstore,
    "tmpfs": tmpfs,
    "squashfuse": squashfuse,
    "squashfs": squashfs,
    "erofs": erofs,
    "passthrough": passthrough,
}
# A run needs these peers for its ratios.
ALWAYS = ("directory", "fanstore")
QUICK = ("directory", "fanstore", "tmpfs")
