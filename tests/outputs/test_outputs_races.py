"""Several ranks that make, move and remove the same names at once."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from pathlib import Path

import pytest
from namespace_scenes import delays, fails, outcome, play
from namespace_world import Cluster, Process
from soak import sampled

from fanstore.outputs.model.entries import keeper_of


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


def test_a_rename_into_a_directory_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """The rank that keeps the directory's name does not make a pointer to nobody there, which would
    answer EIO for the rest of the job."""

    async def scene(cluster: Cluster) -> None:
        process = cluster.process(keeper_of(0, b"", 2))
        await process.write(b"f", b"x")
        await process.mkdir(b"a")
        await process.rmdir(b"a")
        with pytest.raises(FileNotFoundError):
            process.rank.trees.move(0, b"f", b"a/f")
        assert await fails(process.stat(b"a")) == errno.ENOENT
        await process.mkdir(b"a")
        await process.rename(b"f", b"a/f")

    play(tmp_path, scene, size=2)


@pytest.mark.parametrize("seed", sampled(range(6), range(2)))
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


@pytest.mark.parametrize("seed", sampled(range(6), [0, 1]))
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


@pytest.mark.parametrize("seed", sampled(range(6), range(2)))
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


@pytest.mark.parametrize("seed", sampled(range(8), range(2)))
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
