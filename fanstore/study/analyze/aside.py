"""Runs a command such that its changes to some directories go to memory: in a mount namespace, with
a file system in memory over them (overlayfs). It ends with the command, and leaves nothing.

usage: python -m fanstore.study.analyze.aside KEPT... -- CMD...

It covers the working directory, the home directory, and directories that CMD's words name. Does not
cover KEPT directories. See mount_namespaces(7), user_namespaces(7); users other than root also need
a user namespace, which some sites do not allow."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Sequence

from fanstore.exit_codes import FAILED, NOT_EXECUTABLE, NOT_FOUND

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000  # flags of unshare(2)
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18  # flags of mount(2)
# Directories of programs and devices, in which no job writes its checkpoints.
_SYSTEM = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
)  # fmt: skip
_SHARED = ("/", "/tmp", "/var/tmp")  # these themselves are not covered, only directories in them
_libc = ctypes.CDLL(None, use_errno=True)


def covered(command: Sequence[str], kept: Iterable[str]) -> list[str]:
    """Returns the directories to cover. None of them is in another one, or in one of `kept`."""
    named = [word.partition("=")[2] if "=" in word else word for word in command]
    nearest = [_nearest(os.path.abspath(word)) for word in named if os.sep in word]
    wanted = {os.path.realpath(each) for each in (os.getcwd(), os.path.expanduser("~"), *nearest)}
    allowed = [
        each
        for each in sorted(wanted)
        if each not in _SHARED
        and os.path.isdir(each)
        and not any(_within(each, top) for top in (*_SYSTEM, *kept))
    ]
    return [each for each in allowed if not any(_within(each, o) for o in allowed if o != each)]


def _nearest(path: str) -> str:
    """Returns `path` if it is a directory, otherwise the nearest directory above it."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def set_aside(directories: Sequence[str], kept: Sequence[str], place: str) -> None:
    """Covers directories for this process and its children. place: an empty directory, at which the
    file system in memory is mounted. Raises OSError."""
    _own_namespace()
    inside = [each for each in (*_mounts(), *kept) if any(_within(each, d) for d in directories)]
    held = {each: os.open(each, os.O_PATH) for each in dict.fromkeys(inside)}
    _mount("tmpfs", place, "tmpfs", 0, "mode=700")
    here = os.getcwd()
    over = os.open(place, os.O_PATH)  # opened now, because it may be covered next
    for number, directory in enumerate(directories):
        upper, work = (f"/proc/self/fd/{over}/{number}{end}" for end in ("", "-work"))
        os.mkdir(upper, os.stat(directory).st_mode & 0o7777)
        os.mkdir(work)
        options = f"lowerdir={_escaped(directory)},upperdir={upper},workdir={work}"
        _mount("overlay", directory, "overlay", 0, options + ",userxattr")
    for path, fd in sorted(held.items()):
        if path not in directories and os.path.isdir(path):
            _mount(f"/proc/self/fd/{fd}", path, None, _BIND | _RECURSIVE, None)
        os.close(fd)
    os.close(over)
    os.chdir(here)  # changes into the covering directory


def problem() -> str:
    """Returns why no directory can be covered on this machine, or "". Tries it in another
    process."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="fanstore-") as place:
        os.mkdir(f"{place}/over")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.mkdir(f"{place}/lower")
                set_aside([f"{place}/lower"], [], f"{place}/over")
            except OSError as error:
                os.write(writing, (error.strerror or "not allowed").encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            said = stream.read()
        os.waitpid(pid, 0)
        return said


def _own_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0 and _libc.unshare(_NEW_MOUNTS) == 0:
        _mount("none", "/", None, _RECURSIVE | _PRIVATE, None)
        return
    if _libc.unshare(_NEW_MOUNTS | _NEW_USERS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(text)
    _mount("none", "/", None, _RECURSIVE | _PRIVATE, None)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    words = [
        None if each is None else os.fsencode(each) for each in (source, target, kind, options)
    ]
    if _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _mounts() -> list[str]:
    """Returns all mount points."""
    with open("/proc/self/mountinfo", "rb") as stream:
        found = [line.split()[4].decode("unicode_escape") for line in stream]
    return sorted(set(found))


def _escaped(path: str) -> str:
    """Escapes a path for the options of overlayfs, in which commas and colons are separators."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def main() -> int:
    """Covers the directories and becomes the command. Returns an exit code if that fails."""
    end = sys.argv.index("--")
    kept, command = sys.argv[1:end], sys.argv[end + 1 :]
    job = os.environ["FANSTORE_JOB_DIR"]
    mounts = [text for name, text in os.environ.items() if name.startswith("FANSTORE_MOUNT_PREFIX")]
    kept.append(os.path.dirname(os.path.dirname(job)))  # the directory with the staged datasets
    place = f"{job}/aside"
    try:
        os.mkdir(place)
        set_aside(covered(command, [*kept, *mounts]), kept, place)
    except OSError as error:
        print(f"fanstore: error: what the job writes cannot be set aside: {error}", file=sys.stderr)
        return FAILED
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"fanstore: error: {command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


if __name__ == "__main__":
    sys.exit(main())
