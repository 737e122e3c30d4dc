"""Stage-out of several ranks: one is lost, and random changes end as they ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest
from output_ranks import Cluster
from output_staging import run, settled, tree

from fanstore.outputs.model.entries import Place, home_rank_of, split
from fanstore.outputs.stageout.reconcile import Reconciled
from fanstore.outputs.stageout.stageout import StageOut


def test_several_ranks(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 4)

    async def work() -> None:
        cluster.ranks[1].mkdir(b"ckpt")
        for number, rank in enumerate(cluster.ranks):
            for each in range(10):
                rank.publish(b"ckpt/shard-%d-%d" % (number, each), b"%d" % number * 1000)
        cluster.ranks[3].publish(b"ckpt/shard-0-0", b"another's now")
        cluster.ranks[2].unlink(b"ckpt/shard-1-1")

    summaries = run(cluster, work)
    found = tree(cluster.output_dir)
    assert len(found) == 1 + 39
    assert found["ckpt/shard-0-0"] == b"another's now"
    assert found["ckpt/shard-2-7"] == b"2" * 1000
    assert [s["unplaced"] for s in summaries] == [[]] * 4
    assert sum(s["published"] for s in summaries) == 41


def lose(cluster: Cluster, rank: int) -> None:
    for peers in cluster.net:
        if peers.rank != rank:
            peers.lose(rank)
    cluster.ranks[rank].stage_out.give_up()


def test_a_lost_ranks_outputs_are_named_by_its_witness(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)

    async def work() -> None:
        cluster.ranks[0].publish(b"placed", b"1")
        await settled(cluster.ranks[0])
        for each in range(3):
            cluster.ranks[0].publish(b"unplaced%d" % each, b"2" * 100_000)
        cluster.ranks[0].unlink(b"unplaced1")
        lose(cluster, 0)

    first, second = run(cluster, work)
    assert first["lost"] == ["unplaced0", "unplaced2"]
    assert second["lost"] == []
    assert tree(cluster.output_dir)["placed"] == b"1"


def test_names_whose_home_is_lost_are_placed_by_the_owner(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)
    home = home_rank_of(0, b"ckpt", 3)
    owner = (home + 1) % 3

    async def work() -> None:
        for each in range(3):
            cluster.ranks[owner].publish(b"ckpt/%d" % each, b"%d" % each)
        lose(cluster, home)

    summaries = run(cluster, work)
    assert tree(cluster.output_dir / "ckpt") == {"0": b"0", "1": b"1", "2": b"2"}
    assert all(s["unplaced"] == [] for s in summaries)


def test_random_changes_end_as_they_ended(tmp_path: Path) -> None:
    for seed in range(6):
        base = tmp_path / str(seed)
        rng = random.Random(seed)
        cluster = Cluster(base, 1 + seed % 3)
        expected: dict[str, bytes | str | None] = {}

        async def work(
            rng: random.Random = rng,
            cluster: Cluster = cluster,
            expected: dict[str, bytes | str | None] = expected,
        ) -> None:
            names = ["a", "b", "c"]
            for step in range(150):
                rank = rng.choice(cluster.ranks)
                name, other = rng.sample(names, 2)
                what = rng.choice(["file", "file", "link", "rename", "unlink", "pause"])
                if what == "file":
                    expected[name] = b"%d" % step * rng.choice([1, 1000])
                    rank.publish(name.encode(), expected[name])
                elif what == "link":
                    expected[name] = f"target{step}"
                    rank.symlink(b"target%d" % step, name.encode())
                elif what == "rename" and name in expected:
                    expected[other] = expected.pop(name)
                    rank.rename(name.encode(), other.encode())
                elif what == "unlink" and name in expected:
                    del expected[name]
                    rank.unlink(name.encode())
                elif what == "pause":
                    await asyncio.sleep(rng.choice([0, 0.001, 0.01]))

        summaries = run(cluster, work)
        assert tree(cluster.output_dir) == expected, seed
        assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


def test_random_trees_end_as_they_ended(tmp_path: Path) -> None:
    """The same done to a plain directory."""
    for seed in range(12):
        base, plain = tmp_path / str(seed), tmp_path / f"plain{seed}"
        plain.mkdir()
        rng = random.Random(seed)
        cluster = Cluster(base, 1 + seed % 3)

        async def work(
            rng: random.Random = rng, cluster: Cluster = cluster, plain: Path = plain
        ) -> None:
            for step in range(120):
                rank = rng.choice(cluster.ranks)
                path, other = ("/".join(rng.choices("abc", k=rng.choice([1, 2, 3]))) for _ in "12")
                at, to = os.fsencode(path), os.fsencode(other)
                with contextlib.suppress(OSError):
                    what = rng.choice(["mkdir", "mkdir", "file", "file", "rename", "remove", "-"])
                    if what == "mkdir":
                        (plain / path).mkdir()
                        rank.mkdir(at)
                    elif what == "file":
                        (plain / path).write_bytes(b"%d" % step)
                        rank.publish(at, b"%d" % step)
                    elif what == "rename" and path != other:
                        os.rename(plain / path, plain / other)
                        rank.rename(at, to)
                    elif what == "remove":
                        (os.rmdir if (plain / path).is_dir() else os.unlink)(plain / path)
                        rank.unlink(at)
                    elif what == "-":
                        await asyncio.sleep(rng.choice([0, 0.01, 0.1]))

        summaries = run(cluster, work)
        assert tree(cluster.output_dir) == tree(plain), seed
        assert all(s["unplaced"] == s["backups"] == [] for s in summaries), seed


def test_a_file_comes_before_the_directory_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory replaces a file of the job's, and is another rank's to see to."""
    cluster = Cluster(tmp_path, 3)
    rank, other, third = cluster.ranks
    late = asyncio.Event()
    make_so = StageOut._make_so

    async def delayed(self: StageOut, places: list[Place]) -> list[Reconciled]:
        if self is rank.stage_out:
            await late.wait()
        return await make_so(self, places)

    async def work() -> None:
        third.publish(b"b", b"a file")
        third.mkdir(b"was")
        third.publish(b"was/inside", b"i")
        await settled(third)
        monkeypatch.setattr(StageOut, "_make_so", delayed)
        rank.unlink(b"b")
        rank.rename(b"was", b"b")
        other.publish(b"b/a", b"deep")
        await settled(other)
        assert tree(cluster.output_dir).get("b/a") == b"deep"
        late.set()

    summaries = run(cluster, work)
    assert tree(cluster.output_dir) == {"b": None, "b/a": b"deep", "b/inside": b"i"}
    assert all(s["unplaced"] == s["backups"] == [] for s in summaries)


def test_each_name_of_an_object_gets_a_copy_of_its_own(tmp_path: Path) -> None:
    """The copy for a name that it has no more may still be under way when the new one asks."""
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        early = rank.publish(b"early", b"e" * 1000)
        late = rank.publish(b"late", b"l" * 1000)
        supplier = rank.stage_out._supplier
        supplier.begin(1)
        for entry in (early, late):
            number, attr, names = entry.object_id, entry.attr, (split(0, b"a"), split(0, b"b"))
            asked = [supplier.supply([(number, name, attr)]) for name in names]
            copies = [copy for (copy,) in await asyncio.gather(*asked)]
            assert len(set(copies)) == 2
            assert {Path(os.fsdecode(each)).stat().st_size for each in copies} == {1000}
            for each in copies:
                os.unlink(each)

    run(cluster, work, started=False)


def test_an_object_that_waits_under_two_names_is_copied_early_once(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        entry = rank.publish(b"old", b"o" * 1000)
        rank.stage_out._supplier.published(entry)
        rank.stage_out._supplier.begin(2)
        wanted = (entry.object_id, split(0, b"old"), entry.attr)
        (copy,) = await rank.stage_out._supplier.supply([wanted])
        os.unlink(copy)
        assert os.listdir(os.path.dirname(copy)) == []

    run(cluster, work, started=False)
