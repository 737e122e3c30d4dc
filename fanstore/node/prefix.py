"""Mount prefixes: their names, their makers, and their removal.

If a prefix does not exist, FanStore makes it, and first writes an entry in `<base>/prefixes`; jobs
of one user share the prefix by holding the entry. FanStore never touches a directory that existed
before: it makes real directories for that dataset in the job's own directory instead.

A prefix that FanStore made contains a note for programs without the preload library, which see the
bare directory. Programs with the library never see the note: they see what the index lists.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from fanstore.errors import FanstoreError, UsageError
from fanstore.staging import locks
from fanstore.staging.base import StagingFolder, is_within_any, make_private, user_name
from fanstore.staging.local_dir import missing_directories
from fanstore.trees import bottom_up

NOTE_NAME = "SERVED-BY-FANSTORE.txt"
NOTE = """\
This directory is a mount of FanStore. Its files are shown to the programs of a job alone, by a
library that glibc loads into them. Who reads this note has not got it:

- a program outside the job: start it with   fanstore exec -- PROGRAM
- a program of the job that is static, written in Go, or for another libc than glibc: start the
  job with   fanstore run --trap ...
- a program in a container: show FanStore's own files and the job's local directory in there

fanstore doctor --check PROGRAM   says what a program needs. This note goes with the job.
"""

_TRIES = 10


@dataclass(frozen=True)
class Prefix:
    """A mount prefix as the segment stores it. alias: the path that the user gave, or "" if it is
    the same path."""

    path: str
    alias: str

    def spellings(self) -> tuple[bytes, ...]:
        """Returns the mount prefix, and its alias if it has one."""
        return tuple(os.fsencode(path) for path in (self.path, self.alias) if path)


def default_prefix(dataset_name: str) -> str:
    """Returns /tmp/fanstore-<user>/<dataset name>. Raises FanstoreError if /tmp/fanstore-<user>
    belongs to another user."""
    parent = f"/tmp/fanstore-{user_name()}"
    if os.path.lexists(parent):
        make_private(parent)
    return os.path.join(parent, dataset_name)


def spell(given: str) -> Prefix:
    """Returns the canonical path of a prefix, with the path that was given as its alias. The path
    need not exist."""
    absolute = os.path.abspath(given)
    canonical = os.path.realpath(given)
    plain = ".." not in given.split("/")
    return Prefix(canonical, absolute if plain and absolute != canonical else "")


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _nested(path: str, other: str) -> bool:
    return _within(path, other) or _within(other, path)


def check_prefixes(prefixes: Sequence[Prefix], base: StagingFolder) -> None:
    """Raises UsageError if a prefix contains another one, or overlaps FanStore's own directory."""
    for number, prefix in enumerate(prefixes):
        if prefix.path == "/":
            raise UsageError("the mount prefix cannot be /: name a directory with --mount")
        if any("\0" in text or len(os.fsencode(text)) > 3800 for text in (prefix.path,)):
            raise UsageError(
                f"mount prefix {prefix.path[:60]}...: too long; name a shorter one with --mount"
            )
        if _within(base.path, prefix.path) or is_within_any(prefix.path):
            raise UsageError(
                f"mount prefix {prefix.path} meets FanStore's own directory {base.path}; "
                "name another with --mount"
            )
        for other in prefixes[:number]:
            if prefix.path == other.path:
                raise UsageError(
                    f"two datasets would appear at {prefix.path}: leave one out if it is given "
                    "twice, else give one another place with --mount"
                )
            if _nested(prefix.path, other.path):
                raise UsageError(
                    f"mount prefixes {other.path} and {prefix.path} are nested; name others with "
                    "--mount"
                )


class PrefixHold:
    """One job's hold on a prefix that FanStore made; `made` is false for a prefix that existed
    before."""

    def __init__(self, base: StagingFolder, prefix: str) -> None:
        self.prefix = prefix
        self.made = False
        digest = hashlib.sha256(os.fsencode(prefix)).hexdigest()[:32]
        self.lock_path = os.path.join(base.folder("prefixes"), digest)
        self._base = base
        self._fd: int | None = None
        self._directories: list[str] = []

    def hold(self) -> None:
        """Holds the prefix, and makes it if it does not exist. The caller holds the base's lock,
        and has made a sweep. Raises FanstoreError, which names the prefix, if it cannot be made;
        UsageError if a prefix that another job made contains it or lies in it."""
        self._refuse_nesting()
        try:
            if not self._join():
                self._make()
        except OSError as error:
            self.release()
            raise FanstoreError(
                f"mount prefix {self.prefix} cannot be created: {error.strerror}"
            ) from error

    def release(self) -> None:
        """Releases the prefix. The next sweep removes it if nobody holds it. If somebody has
        removed the entry, no sweep would find the prefix, so it is removed now."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self.made and not os.path.lexists(self.lock_path):
            _remove_made(self._base, self._directories)

    def _refuse_nesting(self) -> None:
        for entry in self._base.entries("prefixes"):
            other = _read_entry(entry)[-1:]
            if entry != self.lock_path and other and _nested(self.prefix, other[0]):
                raise UsageError(
                    f"mount prefix {self.prefix} is nested with another job's {other[0]}; "
                    "name another with --mount"
                )

    def _join(self) -> bool:
        if not os.path.exists(self.lock_path):
            return False
        self._fd = locks.take(self.lock_path, exclusive=False)
        os.makedirs(self.prefix, 0o700, exist_ok=True)
        _put_note(self.prefix)
        self._directories = _read_entry(self.lock_path)
        self.made = True
        return True

    def _make(self) -> None:
        """Makes the missing directories. Other jobs, or ranks of this one, may make the same ones
        from another local directory: a directory that they made first counts as one that existed
        before."""
        for tries_left in reversed(range(_TRIES)):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(self.prefix).st_mode):  # one stat: two could disagree
                    return
                raise NotADirectoryError(20, os.strerror(20))
            try:
                self._make_missing(missing_directories(self.prefix))
                return
            except FileExistsError:
                if tries_left == 0:
                    raise

    def _make_missing(self, missing: list[str]) -> None:
        if not missing:
            raise FileExistsError(17, os.strerror(17))  # another process made them just now
        self._fd = locks.take(self.lock_path, exclusive=False)
        _write_entry(self.lock_path, missing)
        made: list[str] = []
        try:
            for path in missing:
                os.mkdir(path, 0o700)
                made.append(path)
        except OSError:
            self.release()
            for path in reversed(made):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
            os.unlink(self.lock_path)
            raise
        _put_note(self.prefix)
        self._directories = missing
        self.made = True


def _write_entry(entry: str, made: list[str]) -> None:
    with open(entry, "w", encoding="utf-8") as stream:
        json.dump({"made": made}, stream)


def _read_entry(entry: str) -> list[str]:
    try:
        with open(entry, encoding="utf-8") as stream:
            made = json.load(stream)["made"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [path for path in made if isinstance(path, str) and os.path.isabs(path)]


def prefix_of(entry: str) -> str:
    """Returns the mount prefix that an entry stands for, or the entry's own path if it names
    none."""
    return (_read_entry(entry) or [entry])[-1]


def _put_note(prefix: str) -> None:
    """Writes the note for people; if that fails (on a full disk), the mount works without it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        fd = os.open(os.path.join(prefix, NOTE_NAME), flags, 0o400)
        with open(fd, "w", encoding="ascii") as stream:
            stream.write(NOTE)


def _is_note(name: str, at: int) -> bool:
    """Returns whether the file `name` in the directory `at` is FanStore's note (NOTE_NAME), or a
    part of one: a full disk or a kill while it was written leaves that."""
    if name != NOTE_NAME:
        return False
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        with open(fd, "rb") as stream:
            return NOTE.encode().startswith(stream.read(len(NOTE) + 1))
    except OSError:
        return False


def _remove_empty_tree(path: str, base: str) -> list[str]:
    """Removes the empty directories at and under `path`, with the note and the links of `--trap`;
    returns the names of files that are not FanStore's."""
    left = []
    with contextlib.suppress(OSError):
        for directory in bottom_up(path):
            for name in directory.directories:
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=directory.fd)
            at, is_top = directory.fd, directory.path == path
            for name in directory.others:
                if (is_top and _is_note(name, at)) or _is_traps(name, at, path, base):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=at)
                elif _is_there(name, at):
                    left.append(f"{directory.path}/{name}")
        os.rmdir(path)
    return left


def _is_there(name: str, at: int) -> bool:
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return False
    return True


def _is_traps(name: str, at: int, prefix: str, base: str) -> bool:
    """Returns whether csrc/trap/names.c made a link: its target has that file's own spelling, or is
    a name of FanStore's."""
    try:
        to = os.readlink(name, dir_fd=at)
    except OSError:  # not a link, or its supervisor has removed it
        return False
    return to.startswith("/./") or _within(to, prefix) or _within(to, base)


def remove_prefix(base: StagingFolder, entry: str) -> list[str]:
    """Removes the directories that an entry names, and the entry. Returns the names of files that
    had to stay."""
    left = _remove_made(base, _read_entry(entry))
    os.unlink(entry)
    return left


def _remove_made(base: StagingFolder, made: list[str]) -> list[str]:
    left = _remove_empty_tree(made[-1], base.path) if made else []
    for path in reversed(made[:-1]):
        try:
            os.rmdir(path)
        except OSError:
            _hand_over(base, path)
    return left


def _hand_over(base: StagingFolder, parent: str) -> None:
    """Leaves a directory that we made, and that contains prefixes of others, to the last of
    those."""
    for entry in base.entries("prefixes"):
        made = _read_entry(entry)
        if made and parent not in made and _within(made[0], parent):
            _write_entry(entry, [parent, *made])


def sweep_prefixes(base: StagingFolder) -> list[str]:
    """Removes the prefixes that no job holds. Call it under the base's lock. Returns the names of
    files that had to stay."""
    left: list[str] = []
    for entry in base.entries("prefixes"):
        with contextlib.suppress(OSError), locks.free(entry) as unused:
            if unused:
                left += remove_prefix(base, entry)
    return left
