"""Chooses the local directory, and reads its file system and free space."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fanstore.config import spoken
from fanstore.errors import FanstoreError, UsageError

MEMORY_DIR = "/dev/shm"  # a tmpfs on every Linux; shm_overview(7)
TMPFS_TYPES = {0x01021994: "tmpfs", 0x858458F6: "ramfs"}
LOCAL_TYPES = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x794C7630: "overlay",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0x65735546: "fuse",
}
NETWORK_TYPES = {
    0x0BD00BD0: "lustre",
    0x6969: "nfs",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
    0x00C36400: "ceph",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x517B: "smb",
    0x5346414F: "afs",
    0x6B414653: "afs",
    0x20030528: "orangefs",
    0xAAD7AAEA: "panfs",
    0x01161970: "gfs2",
    0x7461636F: "ocfs2",
    0x01021997: "9p",
}


@dataclass(frozen=True)
class LocalDirectory:
    """A candidate for the local directory. source: the option, variable or rule that named it;
    fs_type: its file system; refusal: the reason why it cannot be used, or None; is_missing: it
    does not exist yet, and a job makes it."""

    path: str
    source: str
    fs_type: str
    free_bytes: int
    refusal: str | None
    is_missing: bool = False

    @property
    def in_memory(self) -> bool:
        """Whether its files are in memory, as in a tmpfs."""
        return self.fs_type in TMPFS_TYPES.values()


def fs_type(path: str) -> str:
    """Returns the name of the file system that holds `path`, or its magic number in hexadecimal."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(256)
    if libc.statfs(os.fsencode(path), buffer) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)
    magic = struct.unpack_from("@l", buffer.raw)[0] & 0xFFFFFFFF
    return (TMPFS_TYPES | LOCAL_TYPES | NETWORK_TYPES).get(magic, hex(magic))


def _refusal(path: str, kind: str) -> str | None:
    if not os.access(path, os.W_OK | os.X_OK):
        return "not writable"
    if kind in NETWORK_TYPES.values():
        return f"on a network file system ({kind})"
    return None


def examine(path: str, source: str) -> LocalDirectory:
    """Examines whether `path` can be a local directory. Creates nothing."""
    if not os.path.isdir(path):
        return LocalDirectory(path, source, "-", 0, "not a directory")
    kind = fs_type(path)
    space = os.statvfs(path)
    return LocalDirectory(path, source, kind, space.f_bavail * space.f_frsize, _refusal(path, kind))


def examine_named(path: str, source: str) -> LocalDirectory:
    """Examines a directory that the user named. If it is missing, examines the directory in which a
    job would make it."""
    missing = missing_directories(path)
    if not missing:
        return examine(path, source)
    parent = examine(os.path.dirname(missing[0]), source)
    refusal = parent.refusal and f"missing, and {parent.path} is {parent.refusal}"
    return replace(parent, path=path, refusal=refusal, is_missing=True)


def candidates(environ: Mapping[str, str] = os.environ) -> Iterator[LocalDirectory]:
    """Yields the directories that a job tries, in order, if the user named none."""
    for variable in ("SLURM_TMPDIR", "TMPDIR_LOCAL", "JOBFS"):
        if environ.get(variable):
            yield examine(environ[variable], f"${variable}")
    if environ.get("SLURM_JOB_ID"):
        yield examine(f"/localscratch/{environ['SLURM_JOB_ID']}", "/localscratch/$SLURM_JOB_ID")
    if environ.get("TMPDIR"):
        yield examine(environ["TMPDIR"], "$TMPDIR")
    yield examine("/tmp", "/tmp")


def missing_directories(path: str) -> list[str]:
    """Returns the directories that `mkdir -p path` would make, topmost first."""
    missing: list[str] = []
    while not os.path.lexists(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    return missing


def make_missing(local: LocalDirectory) -> None:
    """Makes a local directory and its missing parents (0700). Nobody removes it again."""
    for each in missing_directories(local.path):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:  # another rank has just made it
            continue
        except OSError as error:
            where = spoken(local.source, "local_dir")
            raise UsageError(
                f"local directory {local.path} ({where}): {each} cannot be made: {error.strerror}"
            ) from None


def choose(
    named: str | None, source: str = "flag", environ: Mapping[str, str] = os.environ
) -> LocalDirectory:
    """Returns the directory `named`; if that is None, the first usable candidate. Creates nothing:
    `make_missing` does. Raises UsageError if the named one is refused, FanstoreError if no
    candidate is usable."""
    if named is not None:
        directory = examine_named(os.path.abspath(named), source)
        if directory.refusal is not None:
            where = spoken(source, "local_dir")
            raise UsageError(f"local directory {named} ({where}): {directory.refusal}")
        return directory
    refused = []
    for directory in candidates(environ):
        if directory.refusal is None:
            return directory
        refused.append(f"{directory.path} ({directory.refusal})")
    raise FanstoreError("no local directory will do: " + ", ".join(refused))
