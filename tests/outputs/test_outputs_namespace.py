"""What several ranks and processes see of names that others make, change and remove."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest
from namespace_scenes import NEW, delays, fails, play
from namespace_world import Cluster, Outside

from fanstore.outputs.model.wire import Op, Request

RENAME_EXCHANGE = 2
NOREPLACE = 1


def test_what_is_in_the_way_of_a_plain_change_is_found_all_the_same(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        here, far = cluster.process(0), cluster.process(1)
        await here.mkdir(b"d")
        await here.write(b"d/f", b"f")
        await here.symlink(b"d", b"way")
        assert await fails(here.mkdir(b"d/f")) == errno.EEXIST
        assert await fails(here.mkdir(b"none/d")) == errno.ENOENT
        assert await fails(here.unlink(b"d")) == errno.EISDIR
        assert await fails(here.unlink(b"d/f/x")) == errno.ENOTDIR
        assert await fails(here.rename(b"d/f", b"d/f/x")) == errno.ENOTDIR
        await here.rename(b"d/f", b"d/g", NOREPLACE)
        assert await fails(here.open(b"d/g", NEW | os.O_EXCL)) == errno.EEXIST
        await here.mkdir(b"way/sub")
        await here.rename(b"way/g", b"way/sub/g")
        file = await far.open(b"d/sub/h", NEW)
        assert await fails(here.rename(b"d/sub/h", b"d/sub/i")) == errno.ENOENT
        assert await fails(here.unlink(b"d/sub/h")) == errno.ENOENT
        assert await fails(here.open(b"d/sub/h", NEW)) == errno.ETXTBSY
        await here.rename(b"d/sub/g", b"d/sub/h")
        await far.close(file)
        assert await here.names(b"way/sub") == [b"h"]
        await here.unlink(b"way/sub/h")

    play(tmp_path, scene)


# Drafts: who sees them.


def test_an_output_is_seen_by_its_writer_at_once_and_by_others_when_it_is_finished(
    tmp_path: Path,
) -> None:
    async def scene(cluster: Cluster) -> None:
        writer, near, far = cluster.process(0), cluster.process(0), cluster.process(1)
        file = await writer.open(b"in/out", NEW)
        os.write(file.fd, b"half")
        assert (await writer.stat(b"in/out")).attr.size == 4
        assert await writer.names(b"in") == [b"out"]
        assert await writer.read(b"in/out") == b"half"
        for other in (near, far):
            assert await fails(other.stat(b"in/out")) == errno.ENOENT
            assert await fails(other.unlink(b"in/out")) == errno.ENOENT
            assert await fails(other.rename(b"in/out", b"x")) == errno.ENOENT
            assert await other.names(b"in") == []
        os.write(file.fd, b", whole")
        assert await writer.close(file)
        for other in (near, far):
            assert await other.names(b"in") == [b"out"]
            assert await other.read(b"in/out") == b"half, whole"

    play(tmp_path, scene)


def test_the_old_version_is_seen_until_the_new_one_is_finished(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        writer, far = cluster.process(0), cluster.process(1)
        await far.write(b"f", b"old")
        for flags, expected in ((os.O_TRUNC, b"+"), (os.O_APPEND, b"++"), (0, b"%+")):
            before = await far.read(b"f")
            file = await writer.open(b"f", os.O_RDWR | flags)
            os.write(file.fd, b"%" if not flags else b"+")
            assert await far.read(b"f") == before
            await writer.close(file)
            assert await far.read(b"f") == expected

    play(tmp_path, scene)


def test_a_second_writer_is_refused_but_may_join_while_nothing_is_written(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        writer, near, far = cluster.process(0), cluster.process(0), cluster.process(1)
        file = await writer.open(b"lock", NEW)
        assert await fails(far.open(b"lock", NEW)) == errno.ETXTBSY
        assert await fails(near.open(b"lock", NEW | os.O_EXCL)) == errno.EEXIST
        assert await fails(far.open(b"lock", NEW | os.O_EXCL)) == errno.EEXIST
        assert await fails(far.mkdir(b"lock")) == errno.EEXIST
        joined = await near.open(b"lock", NEW)
        assert joined.object_id == file.object_id
        os.write(file.fd, b"held")
        assert await fails(cluster.process(0).open(b"lock", NEW)) == errno.ETXTBSY
        assert not await writer.close(file)
        assert await fails(far.stat(b"lock")) == errno.ENOENT
        assert await near.close(joined)
        assert await far.read(b"lock") == b"held"
        await far.write(b"lock", b"another's now")
        assert await near.read(b"lock") == b"another's now"

    play(tmp_path, scene)


def test_what_a_killed_writer_leaves_is_nothing(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        writer, far = cluster.process(0), cluster.process(1)
        await far.write(b"old", b"kept")
        for name in (b"old", b"new"):
            os.write((await writer.open(name, NEW)).fd, b"half")
        await cluster.ranks[0].drafts.kill(writer.pid)
        assert await far.names(b"") == [b"old"]
        assert await far.read(b"old") == b"kept"
        await far.write(b"new", b"free again", os.O_EXCL)

    play(tmp_path, scene)


def test_an_open_file_outlives_its_name(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        writer, far = cluster.process(0), cluster.process(1)
        await writer.write(b"f", b"there")
        reader = await far.open(b"f", os.O_RDONLY)
        await writer.unlink(b"f")
        assert os.read(reader.fd, 10) == b"there"
        os.close(reader.fd)
        file = await writer.open(b"g", NEW)
        await writer.unlink(b"g")
        assert await fails(writer.stat(b"g")) == errno.ENOENT
        await far.write(b"g", b"another", os.O_EXCL)
        os.write(file.fd, b"never seen")
        await writer.close(file)
        assert await far.read(b"g") == b"another"

    play(tmp_path, scene)


def test_a_file_is_renamed_under_its_writer_hands(tmp_path: Path) -> None:
    """By itself, by others who see only the version before, and with a directory."""

    async def scene(cluster: Cluster) -> None:
        writer, far = cluster.process(0), cluster.process(1)
        await far.write(b"b", b"old b")
        own = await writer.open(b"a", NEW)
        await writer.rename(b"a", b"b")
        assert await far.read(b"b") == b"old b"
        os.write(own.fd, b"new b")
        await writer.close(own)
        assert await far.read(b"b") == b"new b"

        again = await writer.open(b"b", os.O_WRONLY | os.O_APPEND)
        await far.mkdir(b"d")
        await far.rename(b"b", b"d/c")
        await far.rename(b"d", b"in/e")
        assert await far.read(b"in/e/c") == b"new b"
        os.write(again.fd, b", appended")
        await writer.close(again)
        assert await far.read(b"in/e/c") == b"new b, appended"

        lost = await writer.open(b"in/e/c", os.O_WRONLY | os.O_TRUNC)
        await far.unlink(b"in/e/c")
        os.write(lost.fd, b"to nowhere")
        await writer.close(lost)
        assert await far.names(b"in/e") == []

    play(tmp_path, scene, size=4)


def test_others_rename_over_a_name_that_is_being_written(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        writer, far = cluster.process(0), cluster.process(1)
        for name in (b"f", b"in/f"):
            file = await writer.open(name, NEW)
            await far.write(b"mine", b"theirs")
            assert await fails(far.rename(b"mine", name, 1)) == errno.EEXIST
            await far.rename(b"mine", name)
            os.write(file.fd, b"lost")
            await writer.close(file)
            assert await writer.read(name) == b"theirs"

    play(tmp_path, scene, size=4)


# Attributes, special files, times.


def test_attributes_are_the_same_everywhere(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one, two = cluster.process(0), cluster.process(1)
        await one.write(b"f", b"12345")
        await one.mkdir(b"d", 0o750)
        await two.do(Op.CHANGE, b"f", change=1 | 8 | 16, mode=0o601, atime_ns=7, mtime_ns=9)
        await two.do(Op.CHANGE, b"d", change=1, mode=0o711)
        for process in (one, two):
            found = await process.stat(b"f")
            assert stat.S_IMODE(found.attr.mode) == 0o601
            assert (found.attr.size, found.attr.atime_ns, found.attr.mtime_ns) == (5, 7, 9)
            assert (await process.stat(b"d")).attr.mode == stat.S_IFDIR | 0o711
        await two.write(b"f", b"new")  # keeps the mode
        assert stat.S_IMODE((await one.stat(b"f")).attr.mode) == 0o601
        object_id = (await two.stat(b"f")).object_id
        os.chmod(cluster.ranks[1].store.path(object_id), 0o640)
        await two.do(Op.REFRESH, b"", objects=(object_id,))
        assert stat.S_IMODE((await one.stat(b"f")).attr.mode) == 0o640

    play(tmp_path, scene)


def test_a_directory_tells_when_its_names_changed(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one, two = cluster.process(0), cluster.process(1)

        async def changed_ns() -> int:
            return (await two.stat(b"d")).attr.mtime_ns

        await one.mkdir(b"d")
        times = [await changed_ns()]
        for change in (
            lambda: one.write(b"d/f", b"1"),
            lambda: one.write(b"d/g", b"2"),
            lambda: one.rename(b"d/f", b"d/g"),
            lambda: one.unlink(b"d/g"),
        ):
            await change()
            times.append(await changed_ns())
        assert times == sorted(set(times))

        await one.write(b"d/f", b"1")
        before_ns = await changed_ns()
        await one.write(b"d/f", b"a new version")
        await one.do(Op.CHANGE, b"d/f", change=1, mode=0o600)
        await one.rename(b"d", b"in/d")
        await two.rename(b"in/d", b"d")
        assert await changed_ns() == before_ns

        await two.do(Op.CHANGE, b"d", change=16, mtime_ns=before_ns + 10**12)
        assert await changed_ns() == before_ns + 10**12
        await one.unlink(b"d/f")
        assert before_ns < await changed_ns() < before_ns + 10**12

    play(tmp_path, scene)


def test_a_file_is_the_same_in_all_its_versions(tmp_path: Path) -> None:
    """As st_ino says; what is renamed over it is another."""

    async def scene(cluster: Cluster) -> None:
        one, two = cluster.process(0), cluster.process(1)
        await one.write(b"f", b"1")
        inode = (await two.stat(b"f")).inode
        for process, flags in ((two, os.O_TRUNC), (one, os.O_APPEND), (two, 0)):
            file = await process.open(b"f", os.O_RDWR | flags)
            assert (await process.stat(b"f")).inode == inode
            os.write(file.fd, b"2")
            await process.close(file)
            assert (await one.stat(b"f")).inode == inode
        await two.do(Op.TRUNCATE, b"f", size=1)
        await one.rename(b"f", b"in/f")
        await one.do(Op.CHANGE, b"in/f", change=1, mode=0o600)
        assert (await two.stat(b"in/f")).inode == inode
        await two.write(b"g", b"")
        other = (await one.stat(b"g")).inode
        await two.rename(b"g", b"in/f")
        assert (await one.stat(b"in/f")).inode == other != inode
        file = await one.open(b"h", NEW)
        own = (await one.stat(b"h")).inode
        await one.rename(b"h", b"in/f")
        assert (await two.stat(b"in/f")).inode == other
        await one.close(file)
        assert (await two.stat(b"in/f")).inode == own
        for rank in cluster.ranks:
            assert not rank.operations.publisher.store._first

    play(tmp_path, scene)


def test_special_files_are_refused_after_what_is_worse(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one, two = cluster.process(0), cluster.process(1)
        await one.write(b"f", b"")
        for kind in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK):
            assert await fails(one.do(Op.MKNOD, b"new", mode=kind | 0o600)) == errno.EPERM
            assert await fails(one.do(Op.MKNOD, b"f", mode=kind | 0o600)) == errno.EEXIST
            assert await fails(one.do(Op.MKNOD, b"none/new", mode=kind | 0o600)) == errno.ENOENT
        assert await fails(one.do(Op.MKNOD, b"f", mode=0o170000)) == errno.EINVAL
        assert await fails(one.do(Op.MKNOD, b"f", mode=stat.S_IFDIR)) == errno.EPERM
        await one.do(Op.MKNOD, b"file", mode=0o640)
        assert await two.read(b"file") == b""

    play(tmp_path, scene)


def test_hard_links_are_refused_after_what_is_worse(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process()
        await process.write(b"f", b"")
        assert await fails(process.do(Op.LINK, b"none", other=b"g")) == errno.ENOENT
        assert await fails(process.do(Op.LINK, b"f", other=b"in")) == errno.EEXIST
        assert await fails(process.do(Op.LINK, b"f", other=b"g")) == errno.EPERM

    play(tmp_path, scene)


def test_the_end_of_a_path_that_leads_out_is_kept(tmp_path: Path) -> None:
    """Else rmdir would remove what a link points to, where "." is refused."""

    async def scene(cluster: Cluster) -> None:
        process = cluster.process(0)
        await process.symlink(b"/out", b"link")
        for end in (b"/.", b"/..", b"/name/", b"/name/."):
            with pytest.raises(Outside) as led:
                await process.rmdir(b"link" + end)
            assert led.value.args == (b"/out" + end,)

    play(tmp_path, scene)


def test_a_file_without_w_is_not_truncated(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        process, operations = cluster.process(0), cluster.ranks[0].operations
        await process.write(b"f", b"four")
        await process.do(Op.CHANGE, b"f", change=1, mode=0o444)
        with pytest.raises(PermissionError):
            await operations.run(Request(Op.TRUNCATE, path=b"f", size=1, pid=1, peer_uid=12345))
        assert await process.read(b"f") == b"four"

    play(tmp_path, scene)


def test_names_do_not_change_places(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process()
        await process.write(b"f", b"1")
        await process.write(b"g", b"2")
        for flags in (RENAME_EXCHANGE, RENAME_EXCHANGE | 1, 4):
            assert await fails(process.rename(b"f", b"g", flags)) == errno.EINVAL
        assert (await process.read(b"f"), await process.read(b"g")) == (b"1", b"2")

    play(tmp_path, scene)


# Announcing.


@pytest.mark.parametrize("seed", range(5))
def test_every_rank_asks_about_a_directory_before_the_first_output_in_it_is_made(
    tmp_path: Path, seed: int
) -> None:
    async def scene(cluster: Cluster) -> None:
        async def make(rank: int, directory: bytes) -> None:
            await cluster.process(rank).mkdir(directory + b"/d%d" % rank)
            for other in cluster.ranks:
                record = other.inputs[0].record(directory)
                assert record is not None
                assert other.inputs[0].touched(record), (rank, other.peers.rank, directory)

        wishes = [(rank, path) for rank in range(4) for path in (b"in", b"in/sub")]
        assert not any(rank.inputs[0].asked for rank in cluster.ranks)
        await asyncio.gather(*(make(*wish) for wish in wishes))
        assert not any(rank.inputs[0].touched(0) for rank in cluster.ranks)

    play(tmp_path, scene, size=4, delay=delays(seed, 30))


def test_a_rank_that_cannot_be_told_is_waited_for_unless_it_is_lost(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process(0)
        for rank in cluster.ranks:
            rank.peers.broken["touch"] = 1
        assert await fails(process.mkdir(b"in/d")) == errno.EIO
        assert await process.names(b"in") == []
        for rank in cluster.ranks:
            rank.peers.broken.clear()
        await process.mkdir(b"in/d")
        assert await process.names(b"in") == [b"d"]

    play(tmp_path, scene)


def test_the_order_in_which_changes_are_told(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process(1)
        await process.mkdir(b"d")
        await process.write(b"d/part", b"x")
        await process.rename(b"d/part", b"d/whole")
        await process.rename(b"d", b"in/d")
        await process.unlink(b"in/d/whole")
        assert cluster.ranks[1].log.seen == [
            ("changed", b"d"), ("published", b"d/part"),
            ("changed", b"d/whole"), ("changed", b"d/part"),
            ("moved", b"in/d"), ("changed", b"d"), ("changed", b"in/d/whole"),
        ]  # fmt: skip

    play(tmp_path, scene)
