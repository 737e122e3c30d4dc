"""What several ranks and processes see of names that others make, change and remove."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from namespace_world import Cluster, Process

from fanstore.outputs.wire import Op

NEW = os.O_WRONLY | os.O_CREAT
INPUTS: dict[bytes, bytes | str | None] = {b"in": None, b"in/sub": None}


def play(
    tmp_path: Path, scene: Callable[[Cluster], Awaitable[None]], size: int = 2, **fields: Any
) -> None:
    """Runs a scene, and looks whether it left anything behind."""

    async def run() -> None:
        cluster = Cluster(size, tmp_path / "objects", INPUTS, **fields)
        try:
            await asyncio.wait_for(scene(cluster), 120)
            await cluster.check_clean()
        finally:
            cluster.world.close()

    asyncio.run(run())


def delays(seed: int, most: int = 6) -> Callable[[], int]:
    """Random ones."""
    rng = random.Random(seed)
    return lambda: rng.randrange(most)


async def fails(call: Awaitable[Any]) -> int:
    """The errno of a call that must fail."""
    with pytest.raises(OSError) as caught:
        await call
    assert caught.value.errno is not None
    return caught.value.errno


async def outcome(call: Awaitable[Any]) -> int:
    """Its errno, or 0."""
    try:
        await call
    except OSError as error:
        assert error.errno is not None
        return error.errno
    return 0


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
            assert not rank.operations._context.versions._first

    play(tmp_path, scene)


def test_fifos_and_sockets_are_of_one_node_and_devices_of_none(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one, two = cluster.process(0), cluster.process(1)
        await one.do(Op.MKNOD, b"fifo", mode=stat.S_IFIFO | 0o600)
        assert stat.S_ISFIFO((await two.stat(b"fifo")).attr.mode)
        assert await fails(two.open(b"fifo", os.O_RDONLY)) == errno.ENXIO
        os.close((await one.open(b"fifo", os.O_RDONLY)).fd)
        answer = await one.ask(Op.MKNOD, b"socket", mode=stat.S_IFSOCK | 0o600)
        assert answer.entry is not None
        assert answer.text == cluster.ranks[0].store.path(answer.entry.object_id)
        assert stat.S_ISSOCK((await two.stat(b"socket")).attr.mode)
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            assert await fails(one.do(Op.MKNOD, b"device", mode=kind | 0o600)) == errno.EPERM
        await one.do(Op.MKNOD, b"file", mode=0o640)
        assert await two.read(b"file") == b""
        await two.unlink(b"fifo")
        await two.unlink(b"socket")

    play(tmp_path, scene)


def test_hard_links_are_refused_after_what_is_worse(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process()
        await process.write(b"f", b"")
        assert await fails(process.do(Op.LINK, b"none", other=b"g")) == errno.ENOENT
        assert await fails(process.do(Op.LINK, b"f", other=b"in")) == errno.EEXIST
        assert await fails(process.do(Op.LINK, b"f", other=b"g")) == errno.EPERM

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


# Races.


@pytest.mark.parametrize("seed", range(3))
def test_one_of_many_makes_a_file(tmp_path: Path, seed: int) -> None:
    async def scene(cluster: Cluster) -> None:
        processes = [cluster.process(rank % 4) for rank in range(8)]
        for name in (b"in/f%d" % number for number in range(10)):
            calls = [process.write(name, b"%d" % n, os.O_EXCL) for n, process in
                     enumerate(processes)]  # fmt: skip
            results = await asyncio.gather(*map(outcome, calls))
            assert sorted(results) == [0] + [errno.EEXIST] * 7
            assert await processes[0].read(name) == b"%d" % results.index(0)

    play(tmp_path, scene, size=4, delay=delays(seed))


@pytest.mark.parametrize("seed", range(3))
def test_all_make_one_directory_and_write_in_it(tmp_path: Path, seed: int) -> None:
    async def scene(cluster: Cluster) -> None:
        async def work(process: Process, number: int) -> None:
            for depth in (b"a", b"a/b", b"a/b/c"):
                assert await outcome(process.mkdir(depth)) in (0, errno.EEXIST)
            await process.write(b"a/b/c/%d" % number, b"x")

        await asyncio.gather(*(work(cluster.process(n % 4), n) for n in range(12)))
        assert len(await cluster.process(2).names(b"a/b/c")) == 12

    play(tmp_path, scene, size=4, delay=delays(seed))


@pytest.mark.parametrize("seed", range(6))
def test_one_of_many_renames_a_file(tmp_path: Path, seed: int) -> None:
    async def scene(cluster: Cluster) -> None:
        processes = [cluster.process(rank % 4) for rank in range(6)]
        directories = [b"", b"in/", b"in/sub/", b"a/", b"b/", b"c/"]
        for name in (b"a", b"b", b"c"):
            await processes[0].mkdir(name)
        for number in range(10):
            await processes[0].write(b"source", b"%d" % number)
            calls = [
                process.rename(b"source", directory + b"target")
                for process, directory in zip(processes, directories, strict=True)
            ]
            results = await asyncio.gather(*map(outcome, calls))
            assert sorted(results) == [0] + [errno.ENOENT] * 5
            winner = directories[results.index(0)] + b"target"
            assert await processes[1].read(winner) == b"%d" % number
            assert await fails(processes[2].stat(b"source")) == errno.ENOENT
            await processes[3].unlink(winner)

    play(tmp_path, scene, size=4, delay=delays(seed))


@pytest.mark.parametrize("seed", range(6))
def test_files_are_renamed_to_and_fro_and_over_one_another(tmp_path: Path, seed: int) -> None:
    """A name that is always there, as each rename replaces it: nobody ever misses it, and nobody
    waits for ever."""

    async def scene(cluster: Cluster) -> None:
        places = [b"x", b"in/x", b"in/sub/x", b"d/x"]
        await cluster.process().mkdir(b"d")
        rng = random.Random(seed)
        done = asyncio.Event()

        async def work(process: Process, number: int) -> None:
            for turn in range(15):
                mine = rng.choice(places)[:-1] + b"mine-%d-%d" % (number, turn)
                await process.write(mine, b"whole")
                await process.rename(mine, b"in/always")
                old, new = rng.sample(places, 2)
                assert await outcome(process.write(old, b"whole")) in (0, errno.ETXTBSY)
                assert await outcome(process.rename(old, new)) in (0, errno.ENOENT)

        async def look(process: Process) -> None:
            while not done.is_set():
                assert await process.read(b"in/always") == b"whole"
                assert b"always" in await process.names(b"in")

        await cluster.process(0).write(b"in/always", b"whole")
        looking = [asyncio.create_task(look(cluster.process(rank))) for rank in range(4)]
        await asyncio.gather(*(work(cluster.process(n % 4), n) for n in range(6)))
        done.set()
        await asyncio.gather(*looking)
        assert await cluster.process().names(b"in") in ([b"always", b"x"], [b"always"])

    play(tmp_path, scene, size=4, delay=delays(seed))


@pytest.mark.parametrize("seed", range(6))
def test_directories_move_while_files_are_made_in_them(tmp_path: Path, seed: int) -> None:
    """No file whose making succeeded is lost, whatever its directory is called by then."""

    async def scene(cluster: Cluster) -> None:
        rng = random.Random(seed)
        made: set[bytes] = set()
        await cluster.process().mkdir(b"d0")
        await cluster.process().mkdir(b"d0/deep")
        done = asyncio.Event()

        async def make(process: Process, number: int) -> None:
            for turn in range(12):
                name = b"%d-%d" % (number, turn)
                for there in rng.sample([b"d0", b"d1", b"in/d2"], 3):
                    path = there + rng.choice([b"/", b"/deep/"]) + name
                    if await outcome(process.write(path, name, os.O_EXCL)) == 0:
                        made.add(name)
                        break

        async def move(process: Process) -> None:
            names = [b"d0", b"d1", b"in/d2"]
            while not done.is_set():
                old, new = rng.sample(names, 2)
                result = await outcome(process.rename(old, new))
                assert result in (0, errno.ENOENT, errno.ENOTEMPTY), result
                for _ in range(rng.randrange(40)):
                    await asyncio.sleep(0)

        movers = [asyncio.create_task(move(cluster.process(rank))) for rank in (1, 2)]
        await asyncio.gather(*(make(cluster.process(n % 4), n) for n in range(5)))
        done.set()
        await asyncio.gather(*movers)
        process = cluster.process(3)
        (where,) = [
            path for path in (b"d0", b"d1", b"in/d2") if await outcome(process.stat(path)) == 0
        ]
        found = set(await process.names(where)) - {b"deep"}
        found |= set(await process.names(where + b"/deep"))
        assert made and found == made
        for name in made:
            contents = [
                await outcome(process.read(where + way + name)) for way in (b"/", b"/deep/")
            ]
            assert sorted(contents) == [0, errno.ENOENT]

    play(tmp_path, scene, size=4, delay=delays(seed, 4))


@pytest.mark.parametrize("seed", range(8))
def test_no_file_is_lost_in_a_directory_that_is_removed_and_made_again(
    tmp_path: Path, seed: int
) -> None:
    async def scene(cluster: Cluster) -> None:
        rng = random.Random(seed)
        allowed = {0, errno.EEXIST, errno.ENOENT, errno.ENOTEMPTY}
        made: set[bytes] = set()

        async def work(process: Process, number: int) -> None:
            for turn in range(25):
                name = b"%d-%d" % (number, turn)
                choice = rng.randrange(4)
                if choice == 0:
                    result = await outcome(process.mkdir(b"d"))
                elif choice == 1:
                    result = await outcome(process.rmdir(b"d"))
                else:
                    result = await outcome(process.write(b"d/" + name, b"x"))
                    if result == 0:
                        assert await process.read(b"d/" + name) == b"x"
                        if rng.random() < 0.8:
                            await process.unlink(b"d/" + name)
                        else:
                            made.add(name)
                assert result in allowed, result

        await asyncio.gather(*(work(cluster.process(n % 4), n) for n in range(6)))
        if made:
            assert set(await cluster.process(1).names(b"d")) == made
        cluster.process()

    play(tmp_path, scene, size=4, delay=delays(seed))


def test_two_directory_renames_at_once(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        for name in (b"a", b"b"):
            await cluster.process().mkdir(name)
            await cluster.process().write(name + b"/" + name, name)
        one, two = cluster.process(1), cluster.process(2)
        for _ in range(10):
            results = await asyncio.gather(
                outcome(one.rename(b"a", b"b/inner")), outcome(two.rename(b"b", b"a/inner"))
            )
            assert sorted(results) == [0, errno.ENOENT]
            outer = b"b" if results[0] == 0 else b"a"
            inner = b"a" if outer == b"b" else b"b"
            assert await one.read(outer + b"/inner/" + inner) == inner
            await two.rename(outer + b"/inner", inner)

    play(tmp_path, scene, size=3, delay=delays(1))


# Failures.

_STEPS = [
    "reserve", "publish", "insert", "remove", "put", "move", "lock", "get", "close",
    "set_slot", "tables", "put_tables", "slot", "entry", "set_attr",
]  # fmt: skip


@pytest.mark.parametrize("step", _STEPS)
def test_a_call_that_fails_leaves_nothing_behind(tmp_path: Path, step: str) -> None:
    """One call of one rank fails in each operation: that fails with EIO or goes on, and afterwards
    all names can be used."""

    async def scene(cluster: Cluster) -> None:
        process, other = cluster.process(0), cluster.process(1)
        await process.mkdir(b"d")
        await process.mkdir(b"d/e")
        await other.write(b"d/f", b"old")
        await other.write(b"in/g", b"old")
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: process.write(b"d/new", b"x"),
            lambda: process.write(b"d/f", b"x", os.O_APPEND),
            lambda: process.mkdir(b"in/dir"),
            lambda: process.rmdir(b"d/e"),
            lambda: process.rename(b"d/f", b"in/sub/f"),
            lambda: process.rename(b"in/g", b"in/h"),
            lambda: process.do(Op.TRUNCATE, b"in/h", size=1),
            lambda: process.do(Op.CHANGE, b"in/h", change=1, mode=0o600),
            lambda: process.unlink(b"in/h"),
        ]
        failed = 0
        for call in calls:
            cluster.ranks[0].peers.broken[f"home.{step}"] = 1
            result = await outcome(call())
            assert result in (0, errno.EIO, errno.ENOENT)
            failed += result == errno.EIO
            cluster.ranks[0].peers.broken.clear()
            await cluster.world.quiet()
        await usable(cluster)

    play(tmp_path, scene, size=3)


async def usable(cluster: Cluster) -> None:
    """Every name can be made and removed, by everybody."""
    for rank in range(len(cluster.ranks)):
        if rank in cluster.world.lost:
            continue
        process = cluster.process(rank)
        for name in (b"d/new", b"d/f", b"in/g", b"in/h", b"in/sub/f", b"d/e/x"):
            result = await outcome(process.write(name, b"now"))
            assert result in (0, errno.ENOENT), name
            if result == 0:
                assert await process.read(name) == b"now"
                await process.unlink(name)


@pytest.mark.parametrize("turns", [1, 3, 6, 10, 15, 25, 40])
def test_an_operation_goes_on_when_nobody_waits_for_it(tmp_path: Path, turns: int) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process(0)
        await process.mkdir(b"d")
        for number in range(8):
            source, target = b"d/%d" % number, b"in/sub/%d" % number
            await process.write(source, b"kept")
            task = asyncio.create_task(process.rename(source, target))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await cluster.world.quiet()
        assert await process.names(b"d") == []
        assert len(await process.names(b"in/sub")) == 8

    play(tmp_path, scene, size=4, delay=delays(turns, 3))


def test_what_a_lost_rank_held_is_free_again(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one, lost = cluster.process(0), cluster.process(2)
        # Directories whose names are kept by the rank that stays.
        homes = cluster.ranks[0].operations._context.homes
        directory = next(
            name for name in (b"d%d" % n for n in range(99)) if not homes.rank(0, name)
        )
        await one.mkdir(directory)
        await one.mkdir(directory + b"/gone")
        await lost.open(directory + b"/draft", NEW)
        keeper = cluster.ranks[0].operations.keeper
        from fanstore.outputs.entries import Place

        await keeper.lock(2, Place(0, directory, b"held"), 77)
        await cluster.ranks[2].peers.call(0, "gate.freeze", 5)
        waiting = asyncio.create_task(outcome(one.write(directory + b"/held", b"free")))
        await cluster.world.quiet()
        assert not waiting.done()
        cluster.world.lose(2)
        assert await waiting == 0
        await one.write(directory + b"/draft", b"mine", os.O_EXCL)
        await cluster.process(1).write(b"in/after", b"")

    play(tmp_path, scene, size=3)


def test_names_of_a_lost_rank_fail_and_the_others_do_not(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one = cluster.process(0)
        homes = cluster.ranks[0].operations._context.homes
        names = {homes.rank(0, b"d%d" % n): b"d%d" % n for n in range(40)}
        for name in names.values():
            await one.mkdir(name)
        top = homes.rank(0, b"")
        gone = next(rank for rank in range(4) if rank not in (0, top))
        file = await one.open(names[gone] + b"/f", NEW)
        cluster.world.lose(gone)
        assert await fails(one.write(names[gone] + b"/g", b"")) == errno.EIO
        assert await fails(one.stat(names[gone] + b"/g")) == errno.EIO
        assert await fails(one.close(file)) == errno.EIO
        assert cluster.ranks[0].log.seen[-1] == ("stranded", names[gone] + b"/f")
        for rank, name in names.items():
            if rank != gone:
                await one.write(name + b"/g", b"")
                await one.rename(name, name + b"-moved")

    play(tmp_path, scene, size=4)


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
            ("changed", b"in/d"), ("changed", b"d"), ("changed", b"in/d/whole"),
        ]  # fmt: skip

    play(tmp_path, scene)
