"""Each rule of names by itself: what is done and what it must lead to, on a plain directory too."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from namespace_twin import Twin
from namespace_world import Cluster, Process
from soak import combined

NEW = os.O_WRONLY | os.O_CREAT
EXCLUSIVE = NEW | os.O_EXCL
NOREPLACE = 1
LONG = b"n" * 256

# What is there before: a file f, another g, an empty directory e, a directory d with a file in it,
# links to each and to nothing.
BEFORE: list[tuple[Any, ...]] = [
    ("open", b"f", NEW, b"first"),
    ("open", b"g", NEW, b"second"),
    ("mkdir", b"e", 0o755),
    ("mkdir", b"d", 0o755),
    ("open", b"d/in", NEW, b"inner"),
    ("symlink", b"f", b"to-f"),
    ("symlink", b"d", b"to-d"),
    ("symlink", b"nothing", b"to-nothing"),
    ("symlink", b"round", b"round"),
]

RULES: list[tuple[tuple[Any, ...], int | None]] = [
    (("rename", b"f", b"g", 0), None),
    (("rename", b"f", b"e", 0), errno.EISDIR),
    (("rename", b"d", b"f", 0), errno.ENOTDIR),
    (("rename", b"d", b"e", 0), None),
    (("rename", b"e", b"d", 0), errno.ENOTEMPTY),
    (("rename", b"d", b"d/x", 0), errno.EINVAL),
    (("rename", b"d/in", b"d", 0), errno.ENOTEMPTY),
    (("rename", b"d", b"d", 0), None),
    (("rename", b"f", b"f", 0), None),
    (("rename", b"none", b"f", 0), errno.ENOENT),
    (("rename", b"f", b"none/f", 0), errno.ENOENT),
    (("rename", b"f/x", b"g", 0), errno.ENOTDIR),
    (("rename", b"f", b"g/x", 0), errno.ENOTDIR),
    (("rename", b"f", b"g", NOREPLACE), errno.EEXIST),
    (("rename", b"f", b"new", NOREPLACE), None),
    (("rename", b"f", b"to-nothing", NOREPLACE), errno.EEXIST),
    (("rename", b"f/", b"new", 0), errno.ENOTDIR),
    (("rename", b"f", b"new/", 0), errno.ENOTDIR),
    (("rename", b"d/", b"new/", 0), None),
    (("rename", b"d/.", b"new", 0), errno.EBUSY),
    (("rename", b"d/..", b"new", 0), errno.EBUSY),
    (("rename", b"f", b"d/.", 0), errno.EBUSY),
    (("rename", b"to-f", b"new", 0), None),
    (("rename", b"f", b"to-d/new", 0), None),
    (("rename", b"to-d/in", b"f", 0), None),
    (("rename", LONG, b"new", 0), errno.ENAMETOOLONG),
    (("rename", b"f", LONG, 0), errno.ENAMETOOLONG),
    (("unlink", b"f"), None),
    (("unlink", b"none"), errno.ENOENT),
    (("unlink", b"none/x"), errno.ENOENT),
    (("unlink", b"d"), errno.EISDIR),
    (("unlink", b"f/x"), errno.ENOTDIR),
    (("unlink", b"f/"), errno.ENOTDIR),
    (("unlink", b"to-d"), None),
    (("unlink", b"to-d/"), errno.ENOTDIR),
    (("unlink", b"to-d/in"), None),
    (("rmdir", b"e"), None),
    (("rmdir", b"e/"), None),
    (("rmdir", b"d"), errno.ENOTEMPTY),
    (("rmdir", b"f"), errno.ENOTDIR),
    (("rmdir", b"to-d"), errno.ENOTDIR),
    (("rmdir", b"none"), errno.ENOENT),
    (("rmdir", b"e/."), errno.EINVAL),
    (("rmdir", b"d/in/.."), errno.ENOTDIR),
    (("rmdir", b"e/.."), errno.ENOTEMPTY),
    (("mkdir", b"new", 0o755), None),
    (("mkdir", b"new/", 0o755), None),
    (("mkdir", b"f", 0o755), errno.EEXIST),
    (("mkdir", b"d", 0o755), errno.EEXIST),
    (("mkdir", b"d/.", 0o755), errno.EEXIST),
    (("mkdir", b"to-nothing", 0o755), errno.EEXIST),
    (("mkdir", b"to-nothing/", 0o755), errno.EEXIST),
    (("mkdir", b"none/x", 0o755), errno.ENOENT),
    (("mkdir", b"f/x", 0o755), errno.ENOTDIR),
    (("mkdir", LONG, 0o755), errno.ENAMETOOLONG),
    (("mkdir", b"round/x", 0o755), errno.ELOOP),
    (("symlink", b"x", b"f"), errno.EEXIST),
    (("symlink", b"x", b"new/"), errno.ENOENT),
    (("symlink", b"", b"new"), errno.ENOENT),
    (("symlink", b"x" * 4096, b"new"), errno.ENAMETOOLONG),
    (("open", b"f", EXCLUSIVE, b""), errno.EEXIST),
    (("open", b"d", EXCLUSIVE, b""), errno.EEXIST),
    (("open", b"to-f", EXCLUSIVE, b""), errno.EEXIST),
    (("open", b"to-nothing", EXCLUSIVE, b""), errno.EEXIST),
    (("open", b"new", EXCLUSIVE, b"fresh"), None),
    (("open", b"to-nothing", NEW, b"made"), None),
    (("open", b"to-f", os.O_WRONLY | os.O_APPEND, b", and more"), None),
    (("open", b"f", os.O_WRONLY, b"FIR"), None),
    (("open", b"f", os.O_WRONLY | os.O_TRUNC, b"other"), None),
    (("open", b"f", os.O_RDONLY | os.O_DIRECTORY, b""), errno.ENOTDIR),
    (("open", b"d", os.O_RDONLY | os.O_DIRECTORY, b""), None),
    (("open", b"d", os.O_WRONLY, b""), errno.EISDIR),
    (("open", b"d", NEW, b""), errno.EISDIR),
    (("open", b"new/", NEW, b""), errno.EISDIR),
    (("open", b"f/", os.O_RDONLY, b""), errno.ENOTDIR),
    (("open", b"to-f", os.O_RDONLY | os.O_NOFOLLOW, b""), errno.ELOOP),
    (("open", b"to-d", os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY, b""), errno.ENOTDIR),
    (("open", b"round", os.O_RDONLY, b""), errno.ELOOP),
    (("open", b"none", os.O_WRONLY, b""), errno.ENOENT),
    (("open", b"none/x", NEW, b""), errno.ENOENT),
    (("open", b"f/x", NEW, b""), errno.ENOTDIR),
    (("open", LONG, NEW, b""), errno.ENAMETOOLONG),
    (("open", b"new", os.O_RDONLY | os.O_CREAT, b""), None),
    (("stat", b"to-d/../f", True), None),
    (("stat", b"d//./in", True), None),
    (("stat", b"f/..", True), errno.ENOTDIR),
    (("stat", b"to-f", False), None),
    (("stat", b"to-f/", False), errno.ENOTDIR),
    (("stat", b"round", False), None),
    (("stat", b"round", True), errno.ELOOP),
    (("names", b"f"), errno.ENOTDIR),
    (("names", b"to-d"), None),
    (("truncate", b"f", 2), None),
    (("truncate", b"f", 100), None),
    (("truncate", b"to-f", 0), None),
    (("truncate", b"d", 0), errno.EISDIR),
    (("truncate", b"none", 0), errno.ENOENT),
    (("chmod", b"f", 0o600), None),
    (("chmod", b"to-d", 0o700), None),
    (("chmod", b"to-nothing", 0o700), errno.ENOENT),
    (("mknod", b"new"), None),
    (("mknod", b"f"), errno.EEXIST),
    (("mknod", b"new/"), errno.ENOENT),
]


@pytest.mark.parametrize("ranks, rule", combined([1, 4], RULES), ids=lambda value: str(value)[:60])
def test_rule(tmp_path: Path, ranks: int, rule: tuple[tuple[Any, ...], int | None]) -> None:
    asyncio.run(keep_rule(tmp_path, ranks, *rule))


async def keep_rule(
    tmp_path: Path, ranks: int, call: tuple[Any, ...], expected: int | None
) -> None:
    """The result is the expected one, in the plain directory as well, and so is all that is
    left."""
    root = tmp_path / "root"
    root.mkdir()
    cluster = Cluster(ranks, tmp_path / "objects", prefix=os.fsencode(root))
    twin = Twin(cluster, root, [cluster.process(rank) for rank in range(ranks)])
    for number, before in enumerate(BEFORE):
        await twin.step(*before, who=number)
    result = await twin.step(*call, who=ranks - 1)
    if expected is not None:
        assert result == f"errno {expected}"
    else:
        assert not str(result).startswith("errno")
    await twin.compare()
    await cluster.check_clean()
    cluster.world.close()


INPUTS: dict[bytes, bytes | str | None] = {
    b"in": None,
    b"in/file": b"input",
    b"in/sub": None,
    b"link": "in",
    b"broken": "nowhere",
}


def inputs_case(call: Any, expected: int) -> Any:
    return pytest.param(call, expected, id=f"{call[0]} {call[1]}")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        inputs_case(("rename", b"in/file", b"new"), errno.EROFS),
        inputs_case(("rename", b"in", b"new"), errno.EROFS),
        inputs_case(("rename", b"out", b"in/file"), errno.EROFS),
        inputs_case(("rename", b"out", b"link"), errno.EROFS),
        inputs_case(("rename", b"outdir", b"in/sub"), errno.EROFS),
        inputs_case(("unlink", b"in/file"), errno.EROFS),
        inputs_case(("unlink", b"link/file"), errno.EROFS),
        inputs_case(("unlink", b"link"), errno.EROFS),
        inputs_case(("rmdir", b"in/sub"), errno.EROFS),
        inputs_case(("mkdir", b"in/sub"), errno.EEXIST),
        inputs_case(("mkdir", b"in/file"), errno.EEXIST),
        inputs_case(("mkdir", b"link"), errno.EEXIST),
        inputs_case(("mkdir", b"in/file/x"), errno.ENOTDIR),
        inputs_case(("mkdir", b"outdir/../in"), errno.EEXIST),
        inputs_case(("symlink", b"x", b"in/file"), errno.EEXIST),
        inputs_case(("write", b"in/file", b"", 0), errno.EROFS),
        inputs_case(("write", b"in/file", b"", os.O_EXCL), errno.EEXIST),
        inputs_case(("write", b"in", b"", 0), errno.EISDIR),
        inputs_case(("write", b"outdir/to-input", b"", 0), errno.EROFS),
    ],
)
def test_inputs_are_never_changed(tmp_path: Path, call: tuple[Any, ...], expected: int) -> None:
    async def play() -> None:
        cluster = Cluster(2, tmp_path / "objects", INPUTS)
        process = cluster.process(1)
        await process.write(b"out", b"")
        await process.mkdir(b"outdir")
        await process.symlink(b"../in/file", b"outdir/to-input")
        with pytest.raises(OSError) as caught:
            await getattr(process, call[0])(*call[1:])
        assert caught.value.errno == expected
        await cluster.check_clean()
        cluster.world.close()

    asyncio.run(play())


def test_outputs_lie_beside_inputs(tmp_path: Path) -> None:
    async def play() -> None:
        cluster = Cluster(3, tmp_path / "objects", INPUTS)
        one, two = cluster.process(0), cluster.process(2)
        await one.write(b"in/out", b"1")
        await one.write(b"link/deep", b"2")
        await one.mkdir(b"in/sub/dir")
        await one.write(b"in/sub/dir/f", b"3")
        await one.write(b"broken", b"4")  # through the link
        assert await two.names(b"in") == [b"deep", b"out"]
        assert await two.read(b"link/sub/dir/../../deep") == b"2"
        assert await two.read(b"in/sub/dir/f") == b"3"
        assert await two.read(b"nowhere") == b"4"
        await two.rename(b"in/sub/dir", b"dir")
        assert await one.read(b"dir/f") == b"3"
        assert await one.names(b"in/sub") == []
        await cluster.check_clean()
        cluster.world.close()

    asyncio.run(play())


def test_paths_that_lead_out(tmp_path: Path) -> None:
    async def text(process: Process, path: bytes, follow: bool = True) -> bytes:
        from fanstore.outputs.model.wire import Op, Where

        answer = await process.rank.operations.run(
            _request(process, Op.LOOKUP, path, 0 if follow else 1)
        )
        assert answer.where == Where.ELSEWHERE
        return answer.text

    async def play() -> None:
        cluster = Cluster(
            2, tmp_path / "objects", INPUTS, prefix=b"/tmp/m/one", others=[b"/tmp/m/two"]
        )
        process = cluster.process(1)
        await process.mkdir(b"d")
        for name, target in {
            b"abs": b"/elsewhere/x/", b"up": b"../../up", b"in": b"/tmp/m/one/in/file",
            b"other": b"/tmp/m/two", b"near": b"/tmp/m/one-not",
        }.items():  # fmt: skip
            await process.symlink(target, b"d/" + name)
        assert await text(process, b"d/abs") == b"/elsewhere/x/"
        assert await text(process, b"d/abs/../y//z") == b"/elsewhere/x/../y//z"
        assert await text(process, b"d/up/z") == b"/tmp/m/up/z"
        assert await text(process, b"d/near") == b"/tmp/m/one-not"
        assert await text(process, b"d/in") == b"/tmp/m/one/in/file"
        assert await text(process, b"../one/d") == b"/tmp/m/one/d"
        assert await text(process, b"d/..") == b"/tmp/m/one"
        await process.write(b"d/other/f", b"in the second mount")
        assert await cluster.process(0).read(b"d/other/f") == b"in the second mount"
        assert (await process.ask(1, b"f", view=1)).text == b"f"
        with pytest.raises(OSError) as caught:
            await process.rename(b"d/other/f", b"f")
        assert caught.value.errno == errno.EXDEV
        cluster.world.close()

    asyncio.run(play())


def _request(process: Process, op: int, path: bytes, how: int) -> Any:
    from fanstore.outputs.model.wire import Request

    return Request(op, path=path, how=how)
