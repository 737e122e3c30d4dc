"""A model of stage-out: programs change an output tree, passes go over it and are killed at any
step, and the output directory is compared with the tree.

Times of change are the model's own, so that they can be as coarse as those of kernels are; all else
is real: files, inode numbers, leases, renames.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fanstore._native import ffi
from fanstore.outputs.files import files, placing
from fanstore.outputs.tree import passes, target, walk
from fanstore.outputs.tree import placed as placed_module
from fanstore.outputs.tree.passes import StageOut
from fanstore.outputs.tree.placed import Header, Placed
from fanstore.outputs.tree.target import Target

TICK_NS = 10_000_000
OP_NS = 3_000_000
TIMES = (1_000_000_000, 2_000_000_000)
PARTS = (
    (os, "rename"), (os, "link"), (os, "unlink"), (os, "mkdir"), (os, "rmdir"), (os, "symlink"),
    (os, "chmod"), (os, "utime"), (os, "write"),
    (target, "rename_to_free"), (target, "exchange"), (passes, "set_attr"),
)  # fmt: skip


class Killed(BaseException):
    """The process of a pass is killed."""


class Facts:
    """A stat_result with the model's time of change."""

    def __init__(self, found: os.stat_result, ctime_ns: int) -> None:
        self._found = found
        self.st_ctime_ns = ctime_ns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


class Moves:
    """What the segment tells: how many renames there were."""

    def __init__(self) -> None:
        self.count = 0
        self.written: set[int] = set()

    def moves(self) -> tuple[int, int]:
        return self.count, self.count

    def unfinished(self, is_written: object) -> set[int]:
        return set()

    def forget(self, inodes: set[int]) -> None:
        pass


class Daemon:
    """A process that makes passes, and remembers; at first it learns what others placed."""

    def __init__(self, model: Model) -> None:
        self.into = Target(model.header)
        self.placed = Placed(str(model.path / "placed"), model.header)
        self.placed.take_over(self.into.look)
        roots = [(b"", os.fsencode(model.tree))]
        shared: Any = model.moves
        self.stage_out = StageOut(roots, self.into, self.placed, shared, ffi.new("int32_t *"))


@dataclass
class Model:
    """One tree, and the output directory that passes make of it."""

    path: Path
    now_ns: int = 0
    times: dict[int, int] = field(default_factory=dict)
    births: dict[int, int] = field(default_factory=dict)
    moves: Moves = field(default_factory=Moves)
    content: int = 0
    at_step: Callable[[int], None] = lambda step: None
    steps: int = 0
    writer: Any = None
    versions: set[bytes] = field(default_factory=set)  # of files that nobody was writing
    theirs: set[bytes] = field(default_factory=set)  # what somebody else put there
    daemon: Daemon | None = None  # that has made the passes since one was killed

    def __post_init__(self) -> None:
        self.tree, self.out = self.path / "tree", self.path / "out"
        shutil.rmtree(self.path, ignore_errors=True)
        self.tree.mkdir(parents=True)
        self.out.mkdir()
        self.now_ns = 100 * TICK_NS

    # ---- programs ----

    def change(self, op: tuple[str, ...]) -> None:
        """Does one operation of a program; what the kernel would refuse does nothing."""
        self.now_ns += OP_NS
        at_step, self.at_step = self.at_step, lambda step: None
        before = {name: self._inode(name) for name in op[1:]}
        with contextlib.suppress(OSError):
            getattr(self, "_" + op[0])(*[self.tree / name for name in op[1:]])
        for name in op[1:]:
            if op[0] in ("create", "symlink", "mkdir") and not before[name]:
                self.births[self._inode(name)] = self.now_ns
        for inode in {*before.values(), *(self._inode(name) for name in op[1:])}:
            self.times[inode] = self.now_ns
        self.versions |= self.living(but=self.writer)
        self.at_step = at_step

    def _inode(self, name: str) -> int:
        with contextlib.suppress(OSError):
            return os.lstat(self.tree / name).st_ino
        return 0

    def _bytes(self) -> bytes:
        self.content += 1
        return b"%08d" % self.content

    def _create(self, path: Path) -> None:
        path.write_bytes(self._bytes())
        os.utime(path, ns=(TIMES[0], TIMES[0]))

    def _append(self, path: Path) -> None:
        with open(path, "r+b") as stream:
            stream.seek(0, os.SEEK_END)
            stream.write(self._bytes())
        os.utime(path, ns=(TIMES[1], TIMES[1]))

    def _overwrite(self, path: Path) -> None:
        """Of the same size, and with the times set to what they were."""
        found = os.stat(path)
        with open(path, "r+b") as stream:
            stream.write(self._bytes())
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _utime(self, path: Path) -> None:
        os.utime(path, ns=(TIMES[1], TIMES[1]))

    def _chmod(self, path: Path) -> None:
        mode = os.stat(path).st_mode
        enter = 0o111 if stat.S_ISDIR(mode) else 0  # an ordinary user could not look in any more
        os.chmod(path, (0o600 | enter & 0o700) if mode & 0o077 else (0o644 | enter))

    def _rename(self, old: Path, new: Path) -> None:
        self.moves.count += 1
        os.rename(old, new)

    def _link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def _unlink(self, path: Path) -> None:
        os.unlink(path)

    def _mkdir(self, path: Path) -> None:
        path.mkdir()

    def _rmdir(self, path: Path) -> None:
        path.rmdir()

    def _symlink(self, path: Path) -> None:
        os.symlink(walk.LINK_PREFIX + b"to", path)

    def _open(self, path: Path) -> None:
        """Somebody has a file open, and writes to it."""
        self._close(path)
        self.writer = open(path, "r+b")  # noqa: SIM115
        self.writer.write(self._bytes()[:4])
        self.writer.flush()

    def _close(self, path: Path) -> None:
        if self.writer is not None:
            self.writer.write(b"done")
            self.writer.close()
            self.writer = None

    def foreign(self, name: str) -> None:
        """Somebody else puts a file into the output directory, in the place of whatever is there,
        of the same size as that, and perhaps with its inode number."""
        path, before = self.out / name, self.contents()
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):
            path.write_bytes(b"F%07d" % len(before))
        self.theirs = (self.theirs & self.contents()) | (self.contents() - before)

    # ---- passes ----

    def pass_over(self, last: bool = False) -> None:
        """One pass; what a step leads to, `at_step` does. Raises Killed. After that, and after the
        last one, the next is another process's."""
        self.daemon = self.daemon or Daemon(self)
        try:
            with self._watched():
                self.daemon.stage_out.run(last)
        except BaseException:
            self.end_daemon()
            raise
        if last:
            self.daemon.into.clear_scratch(list(self.daemon.placed.copies))
            self.end_daemon()

    def end_daemon(self) -> None:
        """The next pass is another process's."""
        if self.daemon is not None:
            self.daemon.placed.close()
            self.daemon = None

    @property
    def header(self) -> Header:
        return Header("job", str(self.out), ("",), 0o022, True)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Counts each call that changes something, before and after it."""
        self.steps = 0

        def step() -> None:
            self.steps += 1
            self.at_step(self.steps)

        def watched(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*args: Any, **named: Any) -> Any:
                step()
                result = call(*args, **named)
                step()
                return result

            return wrapped

        with pytest.MonkeyPatch.context() as patch:
            for owner, name in PARTS:
                patch.setattr(owner, name, watched(getattr(owner, name)))
            patch.setattr(passes, "name_together", self._name_together(step))
            patch.setattr(passes, "copy_object", self._copy_object(step))
            patch.setattr(passes, "copy_together", self._copy_together(step))
            patch.setattr(walk, "look", self.look)
            patch.setattr(passes, "birth_ns", self._birth_ns)
            patch.setattr(os, "fsync", lambda fd: None)  # what survives a machine is not shown here
            patch.setattr(placing, "sync_all", lambda fds: [None for _ in fds])
            patch.setattr(time, "time_ns", lambda: self.now_ns)
            patch.setattr(passes, "next_tick_ns", self._next_tick_ns)
            patch.setattr(time, "sleep", self._sleep)
            yield

    def _next_tick_ns(self) -> int:
        self.now_ns = (self.now_ns // TICK_NS + 1) * TICK_NS
        return self.now_ns

    def _name_together(self, step: Callable[[], None]) -> Callable[..., list[int]]:
        """One name after the other, so that a kill can come between them."""

        def name(pairs: list[tuple[bytes, bytes]], _: Any) -> list[int]:
            done = []
            for old, new in pairs:
                step()
                if os.path.lexists(new) or not os.path.isdir(os.path.dirname(new)):
                    break
                _rename(old, new)
                done.append(0)
            return done

        _rename = os.rename
        return name

    def _copy_object(self, step: Callable[[], None]) -> Callable[..., None]:
        """In two pieces, so that something can come between them."""

        def copy(source: bytes, to: bytes, attr: Any, _: Any) -> None:
            step()
            with open(source, "rb") as reader, open(to, "xb") as writer:
                size = os.fstat(reader.fileno()).st_size
                writer.write(reader.read(size // 2))
                step()
                writer.write(reader.read(size - size // 2))
            files.set_attr(to, attr)
            step()

        return copy

    def _copy_together(self, step: Callable[[], None]) -> Callable[..., list[OSError | None]]:
        copy = self._copy_object(step)

        def copy_all(group: Any, by_link: bool, _: Any) -> list[OSError | None]:
            errors: list[OSError | None] = []
            for source, to, attr in group:
                try:
                    if by_link:
                        os.link(source, to)
                    else:
                        copy(source, to, attr, None)
                    errors.append(None)
                except OSError as error:
                    errors.append(error)
            return errors

        return copy_all

    def _sleep(self, time_s: float) -> None:
        self.now_ns += int(time_s * 1e9)

    def look(self, path: bytes) -> Any:
        """lstat(2) with the model's time of change, in ticks."""
        self.at_look()
        found = os.lstat(path)
        return Facts(found, self.times.get(found.st_ino, 0) // TICK_NS * TICK_NS)

    def _birth_ns(self, path: bytes) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self.births[os.lstat(path).st_ino] // TICK_NS * TICK_NS
        return -1

    at_look: Callable[[], None] = lambda: None

    # ---- what is there ----

    def of_tree(self) -> dict[str, tuple[object, ...]]:
        return state_of(self.tree)

    def of_output(self) -> dict[str, tuple[object, ...]]:
        return {
            name: what
            for name, what in state_of(self.out).items()
            if not name.startswith(".fanstore-") and "~" not in name
        }

    def living(self, but: Any = None) -> set[bytes]:
        """The bytes of all files in the tree, but of one that is open."""
        written = os.fstat(but.fileno()).st_ino if but is not None else 0
        return {
            _bytes_of(entry)
            for entry in below(self.tree)
            if _is_file(entry) and entry.inode() != written
        }

    def check_versions(self) -> None:
        """That no file under its name has other bytes than one had that nobody was writing."""
        for name, what in self.of_output().items():
            if what[0] == "file":
                known = what[1] in self.versions | self.theirs
                assert known, f"{name}: torn: {what[1]!r}"

    def backups(self) -> list[str]:
        """What was in the way of an output."""
        return [entry.name for entry in below(self.out) if "~" in entry.name]

    def contents(self) -> set[bytes]:
        """Of all files in the output directory, with what is on its way there."""
        return {_bytes_of(entry) for entry in below(self.out) if _is_file(entry)}


def below(top: os.PathLike[str] | str) -> Iterator[os.DirEntry[str]]:
    """Everything in a tree. Path.rglob takes several times as long, which is most of a test."""
    with os.scandir(top) as entries:
        found = list(entries)
    for entry in found:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from below(entry)


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _bytes_of(entry: os.DirEntry[str]) -> bytes:
    with open(entry, "rb", buffering=0) as stream:
        return stream.readall()


def state_of(top: Path) -> dict[str, tuple[object, ...]]:
    """What a tree looks like."""
    found: dict[str, tuple[object, ...]] = {}
    groups: dict[int, str] = {}
    for entry in sorted(below(top), key=lambda entry: entry.path):
        name, facts = entry.path.removeprefix(f"{top}/"), entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            found[name] = ("link", os.readlink(entry).removeprefix(walk.LINK_PREFIX.decode()))
        elif entry.is_dir():
            found[name] = ("directory", stat.S_IMODE(facts.st_mode))
        else:
            first = groups.setdefault(facts.st_ino, name)
            mode, mtime_ns = stat.S_IMODE(facts.st_mode), facts.st_mtime_ns
            found[name] = ("file", _bytes_of(entry), mode, mtime_ns, first)
    return found


__all__ = ["Killed", "Model", "placed_module", "state_of"]
