"""Trees with every odd kind of name and file, and a way to compare two trees exactly."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import stat
from collections.abc import Iterator

ODD_NAMES = [
    b"new\nline", b"carriage\rreturn", b"tab\there", b" leading and trailing ", b"-dash", b"--help",
    b"quote'\"`", b"back\\slash", b"star*", b"question?", b"[class]", b"{brace,s}", b"$HOME", b"~",
    b"#hash", b"semi;colon", b"amp&", b"percent%s%n", b"...", b"..a", b".hidden", b"bell\x07",
    b"escape\x1b[31m", b"\x7f", b"latin\xe9", b"\xff\xfe\xfd", b"half\xc3", b"overlong\xc0\xaf",
    "snow\u2603".encode(), "e\u0301".encode(), "\u00e9".encode(), "\U0001f600".encode(),
    "rtl\u202etxt".encode(), b"b" * 255, b"\xf0" * 255, "\u00fc".encode() * 127, b"1", b"name.tar",
]  # fmt: skip

EDGE_SIZES = [0, 1, 7, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1]


def _write(path: bytes, data: bytes, mode: int = 0o644) -> None:
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def _content(seed: str, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def _sizes(root: bytes) -> None:
    os.mkdir(root)
    for size in EDGE_SIZES:
        _write(root + b"/random-%07d" % size, _content(f"size {size}", size))
        _write(root + b"/text-%07d" % size, (b"line of text %d\n" % size * (size // 8 + 1))[:size])
    _write(root + b"/large-random", _content("large", 4_500_001))
    _write(root + b"/large-text", b"".join(b"%08d large\n" % n for n in range(350_000)))
    half = _content("half", 2_500_000) + b"compresses well " * 160_000
    _write(root + b"/large-half", half)


def _names(root: bytes) -> None:
    os.mkdir(root)
    for name in ODD_NAMES:
        _write(root + b"/" + name, b"content of " + name)
    for name in ODD_NAMES[:30]:
        os.mkdir(root + b"/d" + name)
        _write(root + b"/d" + name + b"/" + name, name)


def _links(root: bytes) -> None:
    os.mkdir(root)
    _write(root + b"/one", b"one inode, three names\n")
    os.mkdir(root + b"/elsewhere")
    os.link(root + b"/one", root + b"/elsewhere/two")
    os.link(root + b"/one", root + b"/a third")
    _write(root + b"/empty", b"")
    os.link(root + b"/empty", root + b"/empty too")
    for name, target in {
        b"relative": b"one", b"up": b"elsewhere/../one", b"dangling": b"no/such/file",
        b"absolute": b"/etc/hostname", b"absolute dangling": b"/no/such",
        b"directory": b"elsewhere", b"self": b"self", b"loop a": b"loop b", b"loop b": b"loop a",
        b"long": b"x/" * 2000 + b"x", b"odd\ntarget": b"new\nline \xff", b"slash": b"elsewhere/",
        b"dot": b".",
    }.items():  # fmt: skip
        os.symlink(target, root + b"/" + name)


def _modes(root: bytes) -> None:
    os.mkdir(root)
    unreadable = (0o000, 0o200) if os.getuid() == 0 else ()  # none but root packs those
    for mode in (0o400, 0o444, 0o600, 0o755, 0o777, 0o4755, 0o2755, 0o1644, *unreadable):
        _write(root + b"/file-%04o" % mode, b"mode %o" % mode, mode)
    for mode in (0o700, 0o755, 0o1777, 0o2775, 0o555):
        os.mkdir(root + b"/directory-%04o" % mode)
        os.chmod(root + b"/directory-%04o" % mode, mode)


def _times(root: bytes) -> None:
    os.mkdir(root)
    for time_ns in (0, 1, 999_999_999, -1, -1_500_000_000, 1 << 32, 2**31 * 10**9 + 5,
                    1_600_000_000_123_456_789, 4_102_444_800_000_000_001):  # fmt: skip
        path = root + b"/t%d" % time_ns
        _write(path, b"time")
        os.utime(path, ns=(time_ns, time_ns))


def _shapes(root: bytes) -> None:
    os.makedirs(root + b"/empty/empty in empty")
    os.makedirs(root + b"/" + b"/".join(b"level%d" % n for n in range(60)))
    os.mkdir(root + b"/many")
    for number in range(300):
        _write(root + b"/many/%d" % number, b"%d\n" % number)
    with open(root + b"/sparse", "wb") as file:
        file.seek(1 << 20)
        file.write(b"middle")
        file.truncate(6 << 20)


def make_odd_tree(path: str | os.PathLike[str]) -> None:
    """Makes a directory `path` with every kind of file and name that prepare accepts, but for
    paths too long to be used whole (see make_deep_tree)."""
    root = os.fsencode(path)
    os.mkdir(root)
    for part in (_sizes, _names, _links, _modes, _times, _shapes):
        part(root + b"/" + part.__name__[1:].encode())
    for number, (folder, _, files) in enumerate(os.walk(root, topdown=False)):
        if not folder.endswith(b"/times"):
            for name in files:
                time_ns = 1_500_000_000_000_000_000 + 1_000_003 * number + len(name)
                os.utime(folder + b"/" + name, ns=(time_ns, time_ns), follow_symlinks=False)
        time_ns = 1_400_000_000_000_000_007 + number
        os.utime(folder, ns=(time_ns, time_ns))


def make_deep_tree(path: str | os.PathLike[str], depth: int = 30) -> bytes:
    """Makes a directory `path` with a file at the end of a path of depth * 201 bytes; returns
    the file's relpath."""
    os.mkdir(path)
    fd = os.open(path, os.O_RDONLY)
    parts = [b"%03d" % n + b"d" * 197 for n in range(depth)]
    for part in parts:
        os.mkdir(part, dir_fd=fd)
        below = os.open(part, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    file_fd = os.open(b"bottom", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
    os.write(file_fd, b"deep down")
    os.close(file_fd)
    os.close(fd)
    return b"/".join([*parts, b"bottom"])


def _digest(name: bytes, dir_fd: int) -> str:
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=dir_fd), "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=8).hexdigest()


@contextlib.contextmanager
def _directory(name: str | bytes | os.PathLike[str], dir_fd: int | None) -> Iterator[int]:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


Facts = tuple[object, ...]


def snapshot(path: str | os.PathLike[str]) -> dict[bytes, Facts]:
    """Everything a round trip must keep, by relpath: mode, owner, time, content or target, and
    for hard links the first of the names. Directories' link counts are file systems' own."""
    seen: dict[bytes, Facts] = {}
    inodes: dict[int, bytes] = {}

    def visit(dir_fd: int, prefix: bytes) -> None:
        for name in sorted(os.fsencode(entry) for entry in os.listdir(dir_fd)):
            found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
            where = prefix + name
            facts: Facts = (oct(found.st_mode), found.st_uid, found.st_gid, found.st_mtime_ns)
            if stat.S_ISREG(found.st_mode):
                first = inodes.setdefault(found.st_ino, where)
                seen[where] = (*facts, found.st_nlink, found.st_size, first, _digest(name, dir_fd))
            elif stat.S_ISLNK(found.st_mode):
                seen[where] = (*facts, os.readlink(name, dir_fd=dir_fd))
            else:
                seen[where] = facts
                with _directory(name, dir_fd) as below:
                    visit(below, where + b"/")

    with _directory(path, None) as root:
        visit(root, b"")
    top = os.stat(path)
    seen[b""] = (oct(top.st_mode), top.st_uid, top.st_gid, top.st_mtime_ns)
    return seen
