"""Several ranks on one machine: each sees the whole dataset, whatever lies on the others."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import inprocess
import pytest
import trees
from mpiexec import needs_ranks
from ranks import FANSTORE, RankStage, assert_all_ok, make_rank_stage, read_results, total
from serving import LIMIT_S, wait_for
from soak import sampled

pytestmark = needs_ranks

MIB = 1 << 20
SOAK = pytest.mark.soak
SIZES = [0, 1, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 5 * MIB // 2, 9 * MIB]


@dataclass
class Packed:
    """A plain directory, what it holds, and datasets made of it, by codec."""

    source: Path
    datasets: dict[str, Path]
    snapshot: Path

    def bytes_of(self, codec: str) -> int:
        """The size of the packs."""
        return sum(pack.stat().st_size for pack in self.datasets[codec].glob("pack-*.fsp"))


def half_random(size: int) -> bytes:
    """Content of which a codec makes something, and not all the same."""
    numbers = range(size // 7000 + 1)
    pieces = (random.Random(n).randbytes(3000) + b"%07d text " % n * 400 for n in numbers)
    return b"".join(pieces)[:size]


def pack(stage: RankStage, source: Path, partitions: int, codecs: Sequence[str]) -> Packed:
    """Datasets of `source`."""
    datasets = {codec: stage.path / f"{source.name}-{codec}" for codec in codecs}
    for codec, dataset in datasets.items():
        options = ("--partitions", str(partitions), "--codec", codec)
        inprocess.call("prepare", "--quiet", source, dataset, *options)
    snapshot = stage.path / f"{source.name}.pickle"
    snapshot.write_bytes(pickle.dumps(trees.snapshot(source)))
    return Packed(source, datasets, snapshot)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> RankStage:
    """Where the datasets of this module are made."""
    return make_rank_stage(tmp_path_factory.mktemp("packed"), 0)


@pytest.fixture
def stage(tmp_path: Path) -> RankStage:
    return make_rank_stage(tmp_path)


@pytest.fixture(scope="module")
def odd(workshop: RankStage) -> Packed:
    """Mixed sizes, odd names, links, empty directories."""
    source = workshop.path / "odd"
    trees.make_odd_tree(source)
    for path in (source / "sizes").glob("large-*"):
        path.unlink()
    for size in SIZES:
        (source / "sizes" / f"half-{size}").write_bytes(half_random(size))
    return pack(workshop, source, 16, ["store", "lz4", "zstd"])


@pytest.fixture(scope="module")
def large(workshop: RankStage) -> Packed:
    """A few large files of several blocks, random and not; one is larger than a small cache."""
    source = workshop.path / "large"
    source.mkdir()
    for number, size in enumerate([2 * MIB, 3 * MIB + 1000, 13 * MIB + 1, 3 * MIB - 1]):
        (source / f"random-{number}").write_bytes(random.Random(number).randbytes(size))
        (source / f"half-{number}").write_bytes(half_random(min(size, 5 * MIB)))
    return pack(workshop, source, 4, ["store", "zstd"])


@pytest.fixture(scope="module")
def equal(workshop: RankStage) -> Packed:
    """Packs of equal size, each with four equal files."""
    source = workshop.path / "equal"
    source.mkdir()
    for number in range(32):
        (source / f"f{number:02}").write_bytes(random.Random(number).randbytes(100_000))
    return pack(workshop, source, 8, ["store"])


def shared_reads(said: list[dict[str, Any]], label: str) -> int:
    """Reads of the shared file system by commands and daemons, as noted under `label`."""
    sections = ("counters", "node")
    return sum(total(said, label, section, "shared_reads") for section in sections)


@pytest.mark.parametrize(
    ("world_size", "codec", "replicas", "policy"),
    [
        pytest.param(1, "zstd", "1", "close", marks=SOAK),
        pytest.param(2, "store", "1", "close", marks=SOAK),
        (2, "zstd", "1", "lru"),
        pytest.param(2, "lz4", "1", "minio", marks=SOAK),
        pytest.param(4, "store", "2", "lru", marks=SOAK),
        pytest.param(4, "lz4", "1", "close", marks=SOAK),
        pytest.param(4, "zstd", "all", "minio", marks=SOAK),
        pytest.param(8, "zstd", "2", "close", marks=SOAK),
    ],
)
def test_every_rank_reads_every_file(
    stage: RankStage, odd: Packed, world_size: int, codec: str, replicas: str, policy: str
) -> None:
    tasks = {"crowd": [str(odd.snapshot), 2 if world_size <= 2 else 1], "note": ["end"]}
    options = ("--replicas", replicas, "--cache-policy", policy)
    said = stage.tasks(world_size, [odd.datasets[codec]], tasks, options)
    assert_all_ok(said)
    if world_size == 1:
        return
    whole = replicas == "all" or int(replicas) >= world_size
    assert (total(said, "end", "node", "fetches") == 0) == whole
    assert shared_reads(said, "end") == 0


WAYS = ("preads", "seeks", "mapped", "sendfile", "cat", "piped", "numpy_arrays", "forked")


@pytest.mark.parametrize(
    ("codec", "options"),
    [
        pytest.param("store", ("--cache-policy", "close"), marks=SOAK),
        ("zstd", ("--cache-policy", "lru", "--cache-bytes", "10M")),
    ],
)
def test_every_way_to_read(
    stage: RankStage, large: Packed, codec: str, options: tuple[str, ...]
) -> None:
    tasks: dict[str, Any] = {way: [] for way in WAYS} | {"preads": [150], "note": ["end"]}
    dataset = large.datasets[codec]
    said = stage.tasks(2, [dataset], tasks, options, source=str(large.source))
    assert_all_ok(said)
    assert all(rank["figures"]["end"]["node"]["fetches"] > 0 for rank in said)
    assert shared_reads(said, "end") == 0


@pytest.mark.parametrize(
    ("world_size", "replicas"),
    [(2, 1)] + [pytest.param(*each, marks=SOAK) for each in ((2, 2), (4, 1), (4, 2), (8, 1))],
)
def test_local_share_is_replicas_of_ranks(
    stage: RankStage, equal: Packed, world_size: int, replicas: int
) -> None:
    tasks = {"metadata": [], "note#1": ["before"], "whole": [], "note#2": ["after"]}
    options = ("--replicas", str(replicas))
    said = stage.tasks(
        world_size, [equal.datasets["store"]], tasks, options, source=str(equal.source)
    )
    assert_all_ok(said)
    for rank in said:
        before, after = rank["figures"]["before"], rank["figures"]["after"]
        assert (before["node"]["fetches"], before["node"]["served"]) == (0, 0)
        assert before["counters"]["missing"] >= 32 and before["counters"]["stats"] >= 32
        read, remote = (after["counters"][name] for name in ("read_bytes", "remote_bytes"))
        assert read == 32 * 100_000
        assert 1 - remote / read == pytest.approx(replicas / world_size, abs=0.01)
        assert after["node"]["fetched_bytes"] == remote
    staged = [rank["figures"]["after"]["datasets"][0] for rank in said]
    whole_bytes = equal.bytes_of("store")
    assert sum(each["shared_bytes"] for each in staged) == whole_bytes
    assert sum(each["received_bytes"] for each in staged) == (replicas - 1) * whole_bytes
    assert shared_reads(said, "after") == 0


@pytest.mark.parametrize("policy", sampled(["close", "lru", "random", "minio"], ["random"]))
@pytest.mark.soak
def test_memory_stays_within_the_bound(stage: RankStage, large: Packed, policy: str) -> None:
    limit_bytes = 10 * MIB * 5 // 3 + 5 * MIB  # with what comes on top of the content
    tasks = {
        "pressure": [4, 40], "killed": [3], "sessions_end": [], "note": ["end"],
        "cache_file": [limit_bytes],
    }  # fmt: skip
    options = ("--cache-policy", policy, "--cache-bytes", "10M")
    said = stage.tasks(2, [large.datasets["store"]], tasks, options, source=str(large.source))
    assert_all_ok(said)
    for rank in said:
        node = rank["figures"]["end"]["node"]
        assert node["fetched_bytes"] > 10 * MIB
        assert node["evicted"] > 0


@pytest.mark.parametrize("policy", sampled(["close", "lru", "random", "minio"], ["lru"]))
@pytest.mark.soak
def test_what_a_policy_keeps(stage: RankStage, equal: Packed, policy: str) -> None:
    keeps = policy != "close"
    settled: dict[str, Any] = {} if keeps else {"emptied": []}
    tasks = {"whole#1": [], **settled, "note#1": ["once"], "whole#2": [], "note#2": ["twice"]}
    dataset = equal.datasets["store"]
    options = ("--cache-policy", policy)
    said = stage.tasks(2, [dataset], tasks, options, source=str(equal.source))
    assert_all_ok(said)
    remote = 16 * 100_000
    for rank in said:
        once, twice = (rank["figures"][label]["node"] for label in ("once", "twice"))
        assert once["fetched_bytes"] == remote  # half of all: the others lie here
        if keeps:
            assert twice["fetched_bytes"] == remote <= once["resident_bytes"]
            assert twice["evicted"] == 0
        else:
            assert twice["fetched_bytes"] == 2 * remote and once["evicted"] == once["fetches"]


def test_several_datasets_in_one_job(stage: RankStage, equal: Packed, large: Packed) -> None:
    """The last is the first again, at another prefix: it is staged once."""
    tasks = {
        "whole": [], "further#2": [2, str(large.source)], "further#3": [3, str(equal.source)],
        "note": ["end"],
    }  # fmt: skip
    datasets = [equal.datasets["store"], large.datasets["zstd"], equal.datasets["store"]]
    said = stage.tasks(2, datasets, tasks, source=str(equal.source))
    assert_all_ok(said)
    staged = [rank["figures"]["end"]["datasets"] for rank in said]
    assert [each["name"] for each in staged[1]] == ["equal-store", "large-zstd", "equal-store"]
    shared = [sum(rank[number]["shared_bytes"] for rank in staged) for number in range(2)]
    assert shared == [equal.bytes_of("store"), large.bytes_of("zstd")]
    assert shared_reads(said, "end") == 0


@pytest.mark.soak
def test_two_jobs_share_what_is_staged(stage: RankStage, equal: Packed) -> None:
    dataset = equal.datasets["store"]
    path, command = stage.reader({"wait_file": ["go"], "whole": []}, source=str(equal.source))
    with stage.launched(stage.run_argv(2, [dataset], command)) as first:
        wait_for(lambda: len(list(path.parent.glob("here.*"))) == 2, "the first job")
        tasks = {"whole": [], "note": ["end"]}
        spec, second = stage.reader(tasks, source=str(equal.source))
        other = str(stage.path / "other{rank}")
        options = ["--dataset", str(dataset), "--local-dir", str(stage.path / "r{rank}")]
        argv = [*FANSTORE, "run", *options, "--mount", other, "--", *second]
        stage.finished(stage.mpiexec(2, *argv))
        said = read_results(spec, 2)
        assert_all_ok(said)
        reused = [rank["figures"]["end"]["datasets"][0]["reused_packs"] for rank in said]
        assert reused == [4, 4]
        (path.parent / "go").touch()
        _, stderr = first.communicate(timeout=LIMIT_S)
        assert first.returncode == 0, stderr
    said = read_results(path, 2)
    assert_all_ok(said)
    stage.assert_clean()
    assert list(stage.path.glob("other*")) == []


@pytest.mark.parametrize("local", sampled(["r{rank}", "r0"], ["r0"]))
@pytest.mark.soak
def test_ranks_of_one_machine_share_a_prefix(stage: RankStage, equal: Packed, local: str) -> None:
    """And the local directory, too, as by default: each still is a node of its own."""
    spec, command = stage.reader({"whole": [], "note": ["end"]}, source=str(equal.source))
    dataset = str(equal.datasets["store"])
    options = ["--dataset", dataset, "--mount", str(stage.mount), "--replicas", "2"]
    argv = stage.mpiexec(4, *FANSTORE, "run", *options, "--", *command)
    stage.finished(argv, FANSTORE_LOCAL_DIR=str(stage.path / local))
    said = read_results(spec, 4)
    assert_all_ok(said)
    for rank in said:
        end = rank["figures"]["end"]
        assert end["datasets"][0]["remote_packs"] == 4
        assert end["counters"]["remote_bytes"] == 16 * 100_000
    stage.assert_clean()
    assert not stage.mount.exists()


def test_ranks_read_in_place(stage: RankStage, odd: Packed) -> None:
    tasks = {"crowd": [str(odd.snapshot), 1], "note": ["end"]}
    said = stage.tasks(2, [odd.datasets["zstd"]], tasks, ("--in-place", "--verify"))
    assert_all_ok(said)
    for rank in said:
        end = rank["figures"]["end"]
        assert end["node"]["fetches"] == 0 and end["counters"]["shared_reads"] > 0
        assert end["datasets"][0]["copied_packs"] == 0


def test_a_damaged_index_read_in_place_is_found_by_one_for_all(
    stage: RankStage, odd: Packed
) -> None:
    dataset = stage.path / "damaged"
    shutil.copytree(odd.datasets["store"], dataset)
    image = bytearray((dataset / "index.fsi").read_bytes())
    image[-1] ^= 1
    (dataset / "index.fsi").write_bytes(image)
    done = stage.run_ranks(2, dataset, "true", options=["--in-place"], code=None)
    assert done.returncode != 0
    assert done.stderr.count("index.fsi") == 1, done.stderr
    stage.assert_clean()


@pytest.mark.parametrize("world_size", sampled([2, 4], [2]))
@pytest.mark.parametrize("mode", sampled(["plan", "lazy"], ["lazy"]))
@pytest.mark.soak
def test_disks_that_hold_a_dataset_together(
    stage: RankStage, odd: Packed, mode: str, world_size: int
) -> None:
    """What one rank reads of the shared file system comes to the others from there, and stays."""
    tasks = {
        "crowd#1": [str(odd.snapshot), 1], "until_filled": [], "note#1": ["filled"],
        "crowd#2": [str(odd.snapshot), 1], "note#2": ["end"],
    }  # fmt: skip
    said = stage.tasks(world_size, [odd.datasets["lz4"]], tasks, ("--stage", mode))
    assert_all_ok(said)
    for rank in said:
        filled, end = rank["figures"]["filled"], rank["figures"]["end"]
        assert end["counters"]["shared_reads"] == 0
        assert filled["node"]["shared_bytes"] == end["node"]["shared_bytes"]
        assert end["node"]["fetched_bytes"] > 0
    shared = total(said, "end", "node", "shared_bytes")
    assert mode == "plan" or shared <= odd.bytes_of("lz4")  # ahead, a few may be read twice


@pytest.mark.parametrize("world_size", sampled([2, 4], [2]))
@pytest.mark.soak
def test_disks_that_hold_half_of_a_dataset(
    stage: RankStage, equal: Packed, world_size: int
) -> None:
    """Each rank reads the other half by itself: each byte once a node and epoch."""
    tasks = {
        "whole#1": [], "until_filled": [], "emptied": [], "note#1": ["filled"], "whole#2": [],
        "note#2": ["end"],
    }  # fmt: skip
    share = 16 // world_size
    room = share * (100_000 + 4096) + (equal.datasets["store"] / "index.fsi").stat().st_size
    options = ("--stage", "plan", "--local-bytes", str(room), "--cache-policy", "close")
    dataset = equal.datasets["store"]
    said = stage.tasks(world_size, [dataset], tasks, options, source=str(equal.source))
    assert_all_ok(said)
    for rank in said:
        filled, end = (rank["figures"][label]["node"] for label in ("filled", "end"))
        assert filled["kept_records"] == share
        assert end["shared_bytes"] - filled["shared_bytes"] == 16 * 100_000
        assert end["fetched_bytes"] - filled["fetched_bytes"] == (16 - share) * 100_000


@pytest.mark.soak
def test_originals_that_changed_are_told_of_once_a_job(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path)
    dataset = stage.dataset(stage.source())
    (tmp_path / "plain" / "f03").write_bytes(b"changed")
    for _ in range(5):  # a start waits for the look no longer than some milliseconds
        times = stage.run_ranks(3, dataset, "true").stderr.count("has changed since it was packed")
        if times > 0:
            break
    assert times == 1
