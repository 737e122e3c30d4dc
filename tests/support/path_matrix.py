"""Calls on every kind of name, with and without what may follow a name: make|run PLACE STRIDE.

`make` fills a directory with a name for each call and each kind; `run` makes the calls, and prints
what they gave as JSON. Whoever makes and whoever runs may be on two ranks of a job. Of all cases
every STRIDEth is taken.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import os
import socket
import stat
import sys
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, NOFOLLOW = -100, 0x100
AT_SYMLINK_FOLLOW = 0x400
NOREPLACE = 1
ENDS = ("", "/", "/.")
TIMES = (1_000_000_000, 2_000_000_000)


class Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


def libc(name: str, *arguments: Any) -> int:
    """A function of libc. Raises OSError."""
    done = getattr(LIBC, name)(*arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), name)
    return int(done)


def times(one: type[ctypes.Structure], *numbers: int) -> Any:
    return (one * 2)(*(one(number, 0) for number in numbers))


def opened(flags: int) -> Callable[[bytes], object]:
    def call(path: bytes) -> object:
        fd = os.open(path, flags | os.O_NONBLOCK, 0o640)
        found = os.fstat(fd)
        os.close(fd)
        return oct(found.st_mode) if stat.S_ISDIR(found.st_mode) else facts(found)

    return call


def facts(found: os.stat_result) -> list[object]:
    """Of stat, what does not differ between file systems and runs."""
    folder = stat.S_ISDIR(found.st_mode)
    return [oct(found.st_mode), found.st_uid, found.st_gid, 0 if folder else found.st_size]


def bound(path: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def connected(path: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path)


def entered(path: bytes) -> None:
    here = os.getcwdb()
    os.chdir(path)
    os.chdir(here)


def pair(name: str, flags: int) -> Callable[[bytes, bytes], int]:
    return lambda old, new: libc(name, AT_FDCWD, old, AT_FDCWD, new, flags)


FLAGS = {
    "rdonly": os.O_RDONLY,
    "wronly": os.O_WRONLY,
    "rdwr": os.O_RDWR,
    "append": os.O_WRONLY | os.O_APPEND,
    "trunc": os.O_WRONLY | os.O_TRUNC,
    "rdonly_trunc": os.O_RDONLY | os.O_TRUNC,
    "rdonly_creat": os.O_RDONLY | os.O_CREAT,
    "creat": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "creat_append": os.O_RDWR | os.O_CREAT | os.O_APPEND,
    "excl": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    "creat_directory": os.O_RDWR | os.O_CREAT | os.O_DIRECTORY,
    "creat_nofollow": os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW,
    "nofollow": os.O_RDONLY | os.O_NOFOLLOW,
    "directory": os.O_RDONLY | os.O_DIRECTORY,
    "directory_nofollow": os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW,
    "path": os.O_PATH,
    "path_nofollow": os.O_PATH | os.O_NOFOLLOW,
    "path_directory": os.O_PATH | os.O_DIRECTORY,
    "tmpfile": os.O_TMPFILE | os.O_RDWR,
}
CALLS: dict[str, Callable[[bytes], object]] = {
    **{f"open_{name}": opened(flags) for name, flags in FLAGS.items()},
    "mkdir": lambda path: os.mkdir(path, 0o750),
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "remove": lambda path: libc("remove", path),
    "symlink": lambda path: os.symlink("to", path),
    "chmod": lambda path: os.chmod(path, 0o750),
    "fchmodat_nofollow": lambda path: libc("fchmodat", AT_FDCWD, path, 0o750, NOFOLLOW),
    "chown": lambda path: os.chown(path, 7, 8),
    "lchown": lambda path: os.lchown(path, 7, 8),
    "utimensat": lambda path: os.utime(path, TIMES),
    "utimensat_nofollow": lambda path: os.utime(path, TIMES, follow_symlinks=False),
    "utimensat_flags": lambda path: libc("utimensat", AT_FDCWD, path, None, 1),
    "utime": lambda path: libc("utime", path, None),
    "utimes": lambda path: libc("utimes", path, times(Timespec, *TIMES)),
    "lutimes": lambda path: libc("lutimes", path, times(Timespec, *TIMES)),
    "truncate": lambda path: os.truncate(path, 3),
    "truncate_negative": lambda path: libc("truncate", path, ctypes.c_long(-1)),
    "mkfifo": lambda path: os.mkfifo(path, 0o640),
    "mknod": lambda path: os.mknod(path, stat.S_IFREG | 0o640),
    "bind": bound,
    "connect": connected,
    "setxattr": lambda path: os.setxattr(path, "user.a", b"b"),
    "lsetxattr": lambda path: os.setxattr(path, "user.a", b"b", follow_symlinks=False),
    "getxattr": lambda path: os.getxattr(path, "user.a"),
    "lgetxattr": lambda path: os.getxattr(path, "user.a", follow_symlinks=False),
    "listxattr": os.listxattr,
    "removexattr": lambda path: os.removexattr(path, "user.a"),
    "lremovexattr": lambda path: os.removexattr(path, "user.a", follow_symlinks=False),
    "access": lambda path: libc("access", path, os.F_OK),
    "access_w": lambda path: libc("access", path, os.W_OK),
    "access_x": lambda path: libc("access", path, os.X_OK),
    "faccessat_nofollow": lambda path: libc("faccessat", AT_FDCWD, path, os.R_OK, NOFOLLOW),
    "stat": lambda path: facts(os.stat(path)),
    "lstat": lambda path: facts(os.lstat(path)),
    "statfs": lambda path: os.statvfs(path).f_namemax,
    "readlink": lambda path: os.readlink(path).decode(),
    "listdir": lambda path: sorted(map(os.fsdecode, os.listdir(path))),
    "chdir": entered,
    "realpath": lambda path: os.path.relpath(os.path.realpath(path, strict=True)).decode(),
    "rename_from": lambda path: os.rename(path, fresh()),
    "rename_from_slash": lambda path: os.rename(path, fresh() + b"/"),
    "rename_file_to": lambda path: os.rename(file(), path),
    "rename_folder_to": lambda path: os.rename(folder(), path),
    "rename_missing_to": lambda path: os.rename(fresh(), path),
    "rename_itself": lambda path: os.rename(path, path),
    "rename_into_itself": lambda path: os.rename(path, path + b"/below"),
    "noreplace_from": lambda path: pair("renameat2", NOREPLACE)(path, fresh()),
    "noreplace_to": lambda path: pair("renameat2", NOREPLACE)(file(), path),
    "noreplace_missing_to": lambda path: pair("renameat2", NOREPLACE)(fresh(), path),
    "rename_flags": lambda path: pair("renameat2", 64)(path, fresh()),
    "link_to": lambda path: os.link(file(), path),
    "link_folder_to": lambda path: os.link(folder(), path),
    "link_missing_to": lambda path: os.link(fresh(), path),
    "link_from_folder": lambda path: pair("linkat", 0)(path, file()),
    "link_from": lambda path: pair("linkat", 0)(path, fresh()),
    "link_follow_from": lambda path: pair("linkat", AT_SYMLINK_FOLLOW)(path, fresh()),
}
_numbers = itertools.count()


def fresh() -> bytes:
    """A name that is not there, of this call alone."""
    return b"other%d" % next(_numbers)


def file() -> bytes:
    name = fresh()
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    return name


def folder() -> bytes:
    name = fresh()
    os.mkdir(name, 0o755)
    return name


def make_file(name: str) -> None:
    with open(name, "w") as stream:
        stream.write("a file\n")


def make_full(name: str) -> None:
    os.mkdir(name)
    make_file(f"{name}/inner")


def make_to_file(name: str) -> None:
    make_file(f"{name}.target")
    os.symlink(f"{name}.target", name)


def make_to_folder(name: str) -> None:
    os.mkdir(f"{name}.target")
    os.symlink(f"{name}.target", name)


KINDS: dict[str, Callable[[str], object]] = {
    "missing": lambda name: None,
    "file": make_file,
    "empty": os.mkdir,
    "full": make_full,
    "to_file": make_to_file,
    "to_folder": make_to_folder,
    "dangling": lambda name: os.symlink(f"{name}.target", name),
    "loop": lambda name: os.symlink(name, name),
    "fifo": os.mkfifo,
}


def cases(stride: int) -> list[tuple[str, str, str, str]]:
    """(name, call, kind, end) of each case."""
    found = [
        (f"{call}-{kind}-{number}", call, kind, end)
        for call in CALLS
        for kind in KINDS
        for number, end in enumerate(ENDS)
    ]
    return found[::stride]


def result(call: Callable[[], object]) -> object:
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def run(stride: int) -> dict[str, object]:
    found = {}
    for name, call, kind, end in cases(stride):
        path = os.fsencode(name + end)
        found[f"{call} {kind}{end}"] = result(lambda: CALLS[call](path))  # noqa: B023
    return found


def main() -> None:
    what, place, stride = sys.argv[1], sys.argv[2], int(sys.argv[3])
    os.umask(0o022)
    os.chdir(place)
    if what == "make":
        for name, _, kind, _ in cases(stride):
            KINDS[kind](name)
    else:
        print(json.dumps(run(stride)))


if __name__ == "__main__":
    main()
