"""The same calls on a plain directory and on the namespace of outputs, compared."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Any

from namespace_world import Cluster, Open, Outside, Process, renameat2

from fanstore._native import lib
from fanstore.outputs.model.wire import Op

OUTSIDE = "outside"
# The root is an input; a rename with one name in the mount is one between file systems.
ONLY_THERE = (f"errno {errno.EROFS}", f"errno {errno.EXDEV}")
# What rename(2) may say of a directory that is not empty: ext4 says the first, XFS the second.
NOT_EMPTY = {f"errno {errno.ENOTEMPTY}", f"errno {errno.EEXIST}"}


class Twin:
    """A plain directory `root`, and the mount of that very path of a cluster: links mean the same.
    Each step is done on both by one of the processes; its results must be equal."""

    def __init__(self, cluster: Cluster, root: Path, processes: list[Process]) -> None:
        self.cluster = cluster
        self.root = os.fsencode(root)
        self.processes = processes
        self.files: list[tuple[Process, Open, int]] = []
        self.steps = 0

    async def step(self, name: str, *args: Any, who: int = 0) -> Any:
        """One call. What leads out of the mount is done in neither."""
        self.steps += 1
        process = self.processes[who % len(self.processes)]
        there = await self._result(getattr(self, f"_{name}")(process, *args))
        if there in (OUTSIDE, *ONLY_THERE):
            return OUTSIDE
        here = await self._result(getattr(self, f"_plain_{name}")(*args))
        same = there == here or (name == "rename" and {there, here} <= NOT_EMPTY)
        assert same, (name, args, "there:", there, "here:", here)
        return there

    async def _result(self, call: Any) -> Any:
        try:
            return await call
        except Outside:
            return OUTSIDE
        except OSError as error:
            return f"errno {error.errno}"

    def _at(self, path: bytes) -> bytes:
        return self.root + b"/" + path

    # What each call does: to the namespace, and to the plain directory.

    async def _open(self, process: Process, path: bytes, flags: int, data: bytes) -> Any:
        file = await process.open(path, flags)
        wrote = _use(file.fd, flags, data)
        await process.close(file)
        return wrote

    async def _plain_open(self, path: bytes, flags: int, data: bytes) -> Any:
        fd = os.open(self._at(path), flags, 0o666)
        directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        wrote = b"" if directory else _use(fd, flags, data)
        os.close(fd)
        return wrote

    async def _hold(self, process: Process, path: bytes, flags: int, data: bytes) -> Any:
        """Opens for writing, writes, and stays open."""
        file = await process.open(path, flags)
        os.write(file.fd, data)
        self.files.append((process, file, -1))
        return "held"

    async def _plain_hold(self, path: bytes, flags: int, data: bytes) -> Any:
        fd = os.open(self._at(path), flags, 0o666)
        os.write(fd, data)
        process, file, _ = self.files.pop()
        self.files.append((process, file, fd))
        return "held"

    async def let_go(self, index: int) -> None:
        """Closes what is held."""
        process, file, fd = self.files.pop(index)
        os.close(fd)
        await process.close(file)

    async def _stat(self, process: Process, path: bytes, follow: bool) -> Any:
        entry = await process.stat(path, follow)
        size = 0 if entry.is_directory else entry.attr.size
        return entry.attr.mode, size, entry.target if entry.is_link else b""

    async def _plain_stat(self, path: bytes, follow: bool) -> Any:
        found = os.stat(self._at(path), follow_symlinks=follow)
        directory, link = stat.S_ISDIR(found.st_mode), stat.S_ISLNK(found.st_mode)
        target = os.readlink(self._at(path)) if link else b""
        return found.st_mode, 0 if directory else found.st_size, target

    async def _names(self, process: Process, path: bytes) -> Any:
        return await process.names(path)

    async def _plain_names(self, path: bytes) -> Any:
        return sorted(os.listdir(self._at(path)))

    async def _mkdir(self, process: Process, path: bytes, mode: int) -> Any:
        await process.mkdir(path, mode)

    async def _plain_mkdir(self, path: bytes, mode: int) -> Any:
        os.mkdir(self._at(path), mode)

    async def _rmdir(self, process: Process, path: bytes) -> Any:
        await process.rmdir(path)

    async def _plain_rmdir(self, path: bytes) -> Any:
        os.rmdir(self._at(path))

    async def _unlink(self, process: Process, path: bytes) -> Any:
        await process.unlink(path)

    async def _plain_unlink(self, path: bytes) -> Any:
        os.unlink(self._at(path))

    async def _rename(self, process: Process, old: bytes, new: bytes, flags: int) -> Any:
        for path in (old, new):
            with contextlib.suppress(OSError):
                await process.names(os.path.dirname(path.rstrip(b"/")))
        await process.rename(old, new, flags)

    async def _plain_rename(self, old: bytes, new: bytes, flags: int) -> Any:
        renameat2(self._at(old), self._at(new), flags)

    async def _symlink(self, process: Process, target: bytes, path: bytes) -> Any:
        await process.symlink(target, path)

    async def _plain_symlink(self, target: bytes, path: bytes) -> Any:
        os.symlink(target, self._at(path))

    async def _truncate(self, process: Process, path: bytes, size: int) -> Any:
        await process.do(Op.TRUNCATE, path, size=size)

    async def _plain_truncate(self, path: bytes, size: int) -> Any:
        os.truncate(self._at(path), size)

    async def _chmod(self, process: Process, path: bytes, mode: int) -> Any:
        await process.do(Op.CHANGE, path, change=lib.FAN_OUTPUT_MODE, mode=mode)

    async def _plain_chmod(self, path: bytes, mode: int) -> Any:
        os.chmod(self._at(path), mode)

    async def _mknod(self, process: Process, path: bytes) -> Any:
        await process.do(Op.MKNOD, path, mode=0o644)

    async def _plain_mknod(self, path: bytes) -> Any:
        os.mknod(self._at(path), 0o644)

    # The trees as a whole.

    async def compare(self) -> int:
        """Both trees, everything in them, as every rank sees them. How many names there are."""
        count = 0
        for rank in range(len(self.cluster.ranks)):
            count = await self._compare_below(self.cluster.process(rank), b"")
        return count

    async def _compare_below(self, process: Process, directory: bytes) -> int:
        names = sorted(os.listdir(self._at(directory)))
        assert await process.names(directory) == names, directory
        count = len(names)
        for name in names:
            path = directory + b"/" + name if directory else name
            here = await self._plain_stat(path, False)
            assert await self._stat(process, path, False) == here, path
            if stat.S_ISDIR(here[0]):
                count += await self._compare_below(process, path)
            elif stat.S_ISREG(here[0]):
                with open(self._at(path), "rb") as stream:
                    assert await process.read(path) == stream.read(), path
        return count


def _use(fd: int, flags: int, data: bytes) -> bytes:
    """Writes, or reads, what an open was for."""
    if fd < 0:
        return b""
    if flags & os.O_ACCMODE == os.O_RDONLY:
        return os.read(fd, 1 << 16)
    os.write(fd, data)
    return b"written"
