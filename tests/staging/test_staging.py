"""Staging: copies, reuse, damage, room, leftovers of killed jobs."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from pathlib import Path

import pytest
from serving import Stage, find_content, flip, make_stage
from small_disk import small_disk
from soak import sampled

from fanstore import config
from fanstore._native import lib
from fanstore.dataset import open_dataset
from fanstore.errors import FanstoreError, UsageError
from fanstore.staging import codecs, local_dir, memory
from fanstore.staging import stage as staging
from fanstore.staging.budget import budget_of
from fanstore.staging.local_dir import LocalDirectory
from fanstore.staging.room import DiskRoom, Needs, check_rooms, room_of
from fanstore.startup import World

MIB = 1 << 20
READ_EACH = (
    "import errno, os, sys\n"
    "root = sys.argv[1]\n"
    "for name in sorted(os.listdir(root)):\n"
    "    try:\n"
    "        print(name, len(open(os.path.join(root, name), 'rb').read()))\n"
    "    except OSError as error:\n"
    "        print(name, errno.errorcode[error.errno])\n"
)
ABOUT = "import os, sys; print(open(os.environ['FANSTORE_JOB_DIR'] + '/job.json').read())"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def about(stage: Stage, dataset: Path, *options: str) -> dict[str, object]:
    """What a job says of its one dataset."""
    done = stage.run(dataset, sys.executable, "-c", ABOUT, options=options)
    found: dict[str, object] = json.loads(done.stdout)["datasets"][0]
    return found


def damage(stage: Stage, dataset: Path, *names: str) -> None:
    """Flips a byte in the stored content of files."""
    for name in names:
        pack, at = find_content(dataset, stage.files[name])
        flip(pack, at + 10)


def read_each(stage: Stage, dataset: Path, *options: str) -> tuple[dict[str, str], str]:
    """What reading every file gives, and stderr."""
    argv = (sys.executable, "-c", READ_EACH, str(stage.mount))
    done = stage.run(dataset, *argv, options=options)
    return dict(line.split() for line in done.stdout.splitlines()), done.stderr


@pytest.mark.parametrize("options", [(), ("--in-place", "--verify")])
def test_damaged_files_give_eio_and_the_others_are_readable(
    stage: Stage, options: tuple[str, ...]
) -> None:
    dataset = stage.dataset()
    damage(stage, dataset, "f03", "f14")
    found, stderr = read_each(stage, dataset, *options)
    expected = {name: str(len(content)) for name, content in stage.files.items()}
    assert found == {**expected, "f03": "EIO", "f14": "EIO"}
    assert re.findall(r"damaged: .*/(f\d+)", stderr) == ["f03", "f14"]
    assert "2 damaged files" in stderr
    assert stage.leftovers() == []


def test_damage_is_named_in_the_status(stage: Stage) -> None:
    dataset = stage.dataset()
    damage(stage, dataset, "f05")
    assert about(stage, dataset)["damaged_files"] == ["f05"]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("offset", sampled([4, 9000], [9000]))
def test_damage_in_compressed_files(stage: Stage, codec: str, offset: int) -> None:
    text = b"".join(b"line %d of a text that compresses\n" % n for n in range(60000))
    source = stage.source(files={"small": text[:5000], "text": text, "other": text[7:]})
    dataset = stage.dataset(source, "data", "--codec", codec, "--block-size", "65536")
    with open_dataset(dataset) as opened:
        record = opened.lookup(b"text")
        row = opened.records[record]
        pack, at = opened.pack_path(int(row["pack"])), int(row["offset"])
    flip(pack, at + offset)
    found, _ = read_each(stage, dataset)
    assert found == {"small": "5000", "text": "EIO", "other": str(len(text) - 7)}


def test_damage_outside_any_file_hurts_nobody(stage: Stage) -> None:
    dataset = stage.dataset()
    pack, at = find_content(dataset, stage.files["f03"])
    flip(pack, at - 1)
    found, stderr = read_each(stage, dataset)
    assert "EIO" not in found.values() and " damaged" not in stderr


@pytest.mark.parametrize("options", [(), ("--in-place",)])
@pytest.mark.parametrize(
    ("offset", "field"),
    [
        (0, "magic"),
        pytest.param(40, "checksum", marks=pytest.mark.soak),
        pytest.param(-8, "checksum", marks=pytest.mark.soak),
    ],
)
def test_a_pack_whose_frame_does_not_fit_is_refused(
    stage: Stage, options: tuple[str, ...], offset: int, field: str
) -> None:
    dataset = stage.dataset()
    pack = dataset / "pack-00001.fsp"
    flip(pack, offset % pack.stat().st_size)
    done = stage.run(dataset, "true", options=options, code=3)
    assert str(pack) in done.stderr and field in done.stderr and "offset" in done.stderr
    assert stage.leftovers() == []


def test_a_truncated_or_missing_pack_is_refused(stage: Stage) -> None:
    dataset = stage.dataset()
    pack = dataset / "pack-00000.fsp"
    os.truncate(pack, pack.stat().st_size - 100)
    assert str(pack) in stage.run(dataset, "true", code=3).stderr
    pack.unlink()
    assert str(pack) in stage.run(dataset, "true", code=125).stderr
    assert stage.leftovers() == []


@pytest.mark.parametrize("options", [(), ("--in-place",)])
def test_a_damaged_index_body_is_refused(stage: Stage, options: tuple[str, ...]) -> None:
    dataset = stage.dataset()
    flip(dataset / "index.fsi", (dataset / "index.fsi").stat().st_size - 20)
    done = stage.run(dataset, "true", options=options, code=3)
    assert str(dataset / "index.fsi") in done.stderr and "body_checksum" in done.stderr
    assert stage.leftovers() == []


def test_kept_packs_are_reused(stage: Stage) -> None:
    dataset = stage.dataset()
    first = about(stage, dataset, "--keep-staged")
    assert (first["copied_packs"], first["reused_packs"]) == (2, 0)
    assert any("pack-00000.fsp" in name for name in stage.leftovers())
    again = about(stage, dataset, "--keep-staged")
    assert (again["copied_packs"], again["reused_packs"]) == (0, 2)
    last = about(stage, dataset)
    assert last["reused_packs"] == 2
    assert stage.leftovers() == []


def staged(stage: Stage, name: str) -> Path:
    """A staged file."""
    (found,) = stage.local.rglob(name)
    return found


@pytest.mark.soak
def test_a_kept_pack_that_changed_is_staged_again(stage: Stage) -> None:
    dataset = stage.dataset()
    about(stage, dataset, "--keep-staged")
    os.truncate(staged(stage, "pack-00001.fsp"), 5000)
    again = about(stage, dataset, "--keep-staged")
    assert (again["copied_packs"], again["reused_packs"]) == (1, 1)
    found, _ = read_each(stage, dataset)
    assert "EIO" not in found.values()


def test_verify_looks_into_kept_packs(stage: Stage) -> None:
    dataset = stage.dataset()
    about(stage, dataset, "--keep-staged")
    pack = staged(stage, "pack-00001.fsp")
    before = pack.stat()
    flip(pack, 4200)
    os.utime(pack, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = about(stage, dataset, "--keep-staged", "--verify")
    assert (again["copied_packs"], again["reused_packs"]) == (1, 1)


def test_a_damaged_copy_is_not_kept(stage: Stage) -> None:
    dataset = stage.dataset()
    pack, at = find_content(dataset, stage.files["f03"])
    flip(pack, at)
    assert about(stage, dataset, "--keep-staged")["damaged_files"] == ["f03"]
    flip(pack, at)
    again = about(stage, dataset)
    assert (again["damaged_files"], again["copied_packs"]) == ([], 1)


def test_a_second_job_copies_nothing(stage: Stage) -> None:
    dataset = stage.dataset()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    job = json.loads(stage.call("start", *where, "--json").stdout)["job_id"]
    second = about(stage, dataset)
    assert (second["copied_packs"], second["reused_packs"]) == (0, 2)
    assert stage.call("exec", "--", "cat", str(stage.mount / "f02")).stdout
    stage.call("stop", "--job", job)
    assert stage.leftovers() == []


def test_another_dataset_with_the_same_name_is_not_mixed_up(stage: Stage) -> None:
    first = stage.dataset(stage.source("one", {"a": b"first"}), "d1")
    second = stage.dataset(stage.source("two", {"a": b"other"}), "d2")
    stage.run(first, "true", options=("--keep-staged",))
    assert stage.run(second, "cat", str(stage.mount / "a")).stdout == "other"


def check_room(needed: Needs, free_bytes: int, fs_type: str = "ext4", **settings: str) -> None:
    """Checks one rank's room, with these settings."""
    directory = LocalDirectory("/scratch", "flag", fs_type, free_bytes, None)
    world = World()
    given = config.resolve(settings, {})
    room = room_of(world, directory, given.local_bytes, budget_of(given, directory))
    check_rooms(world, [room], [needed])


def test_room_is_checked_with_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    check_room([("a", 400), ("b", 600)], 1000)
    with pytest.raises(FanstoreError, match=r"1,001 bytes.*a .*600 bytes.*1,000 bytes.* are free"):
        check_room([("a", 401), ("b", 600)], 1000)


def test_what_is_staged_in_memory_shares_it_with_the_block_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 100 * MIB)
    check_room([("a", 500 * MIB)], 1000 * MIB)
    check_room([("a", 28 * MIB)], 1000 * MIB, "tmpfs")  # half of all, and 21.7 may be the cache's
    with pytest.raises(FanstoreError, match=r"^/scratch is in memory.*29.0 MiB.*--memory-bytes"):
        check_room([("a", 29 * MIB)], 1000 * MIB, "tmpfs")
    more = {"memory_bytes": "80M", "cache_bytes": "21M"}  # with 19 MiB on top
    check_room([("a", 40 * MIB)], 1000 * MIB, "tmpfs", **more)
    with pytest.raises(FanstoreError, match=r"--memory-bytes leaves 40.0 MiB"):
        check_room([("a", 40 * MIB + 1)], 1000 * MIB, "tmpfs", **more)
    with pytest.raises(FanstoreError, match=r"--local-bytes leaves 30.0 MiB"):
        check_room([("a", 40 * MIB)], 1000 * MIB, "tmpfs", local_bytes="30M", **more)
    with pytest.raises(FanstoreError, match=r"of the memory that is left 60.0 MiB .* may be taken"):
        wide = {"memory_bytes": "1G", "cache_bytes": "21M"}
        check_room([("a", 61 * MIB)], 1000 * MIB, "tmpfs", **wide)


def test_a_cache_larger_than_all_that_is_allowed_is_refused() -> None:
    settings = config.resolve({"memory_bytes": "32M", "cache_bytes": "64M"}, {})
    with pytest.raises(UsageError, match=r"allows 32.0 MiB, .* 64.0 MiB .* may take 111.7 MiB"):
        budget_of(settings, LocalDirectory("/scratch", "flag", "ext4", 0, None))


def test_every_rank_without_room_is_named() -> None:
    rooms = [DiskRoom(rank, f"node{rank}", "/scratch", 100 * rank, None) for rank in range(4)]
    with pytest.raises(FanstoreError) as raised:
        check_rooms(World(), rooms, [[("data", 150)]] * 4)
    lines = str(raised.value).splitlines()
    assert [line[:26] for line in lines] == [f"rank {n} on node{n}: /scratch:" for n in (0, 1)]
    assert "(150 bytes) are needed to stage data" in lines[1] and "(100 bytes) are free" in lines[1]


def test_a_small_local_directory_is_refused_before_copying(stage: Stage) -> None:
    source = stage.source(files={f"f{n}": os.urandom(1_500_000) for n in range(6)})
    dataset = stage.dataset(source)
    with small_disk(stage.local, "6m"):
        done = stage.run(dataset, "true", options=("--stage", "full"), code=125)
        assert "are needed" in done.stderr and "--in-place" in done.stderr
        assert stage.leftovers() == []
        stage.run(dataset, "true", options=("--in-place",))


@pytest.mark.soak
def test_what_earlier_jobs_kept_is_named_where_it_leaves_no_room(stage: Stage) -> None:
    files = {f"f{n}": os.urandom(1_000_000) for n in range(4)}
    kept = stage.dataset(stage.source("kept", files=files), "kept.fan")
    wanted = stage.dataset(stage.source("wanted", files=files), "wanted.fan")
    said = "; other datasets, kept by earlier jobs, take 3."
    with small_disk(stage.local, "7m"):
        stage.run(kept, "true", options=("--keep-staged",))
        refused = stage.run(wanted, "true", options=("--stage", "full"), code=125).stderr
        assert said in refused
        assert len(re.findall(r"needed to stage [^ ,]+, [0-9.]+ MiB \(.* are free", refused)) == 1
        assert said in stage.call("doctor", "--dataset", str(wanted)).stdout
        assert said not in stage.call("doctor", "--dataset", str(kept)).stdout
        stage.call("clean")
        stage.run(wanted, "true", options=("--stage", "full"))
        assert said not in stage.call("doctor", "--dataset", str(wanted)).stdout


def test_a_full_disk_while_copying_is_named() -> None:
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(OSError, match="/dev/full") as raised,
    ):
        staging.write_all(full, memoryview(b"x"))
    assert raised.value.errno == errno.ENOSPC


def make_groups(root: Path, values: dict[str, tuple[str, str, str]]) -> Path:
    """A control group tree: path -> (memory.max, memory.current, memory.stat)."""
    for path, (limit, usage, stat) in values.items():
        group = root / path
        group.mkdir(parents=True, exist_ok=True)
        (group / "memory.max").write_text(limit)
        (group / "memory.current").write_text(usage)
        (group / "memory.stat").write_text(stat)
    return root


def test_control_group_limits(tmp_path: Path) -> None:
    stat = "active_file 100\ninactive_file 50\n"
    root = make_groups(
        tmp_path / "groups",
        {"job": ("10000\n", "4000\n", stat), "job/step": ("max\n", "3000\n", stat)},
    )
    membership = tmp_path / "membership"
    membership.write_text("0::/job/step\n")
    assert memory.available_bytes(str(root), str(membership)) == 10000 - 4000 + 150
    membership.write_text("0::/\n")
    assert memory.available_bytes(str(root), str(membership)) is None
    assert memory.available_bytes(str(root), str(tmp_path / "none")) is None


def test_search_order_of_local_directories(tmp_path: Path) -> None:
    for name in ("slurm", "node", "jobfs", "tmp"):
        (tmp_path / name).mkdir()
    environ = {
        "SLURM_TMPDIR": str(tmp_path / "slurm"),
        "TMPDIR_LOCAL": str(tmp_path / "node"),
        "JOBFS": str(tmp_path / "jobfs"),
        "SLURM_JOB_ID": "no-such-job-here",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    names = [os.path.basename(found.path) for found in local_dir.candidates(environ)]
    assert names == ["slurm", "node", "jobfs", "no-such-job-here", "tmp", "tmp"]
    assert local_dir.choose(None, environ=environ).path == environ["SLURM_TMPDIR"]
    (tmp_path / "slurm").rmdir()
    assert local_dir.choose(None, environ=environ).path == environ["TMPDIR_LOCAL"]


def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_dir, "fs_type", lambda path: "lustre")
    with pytest.raises(UsageError, match=r"network file system .lustre"):
        local_dir.choose(str(tmp_path))
    with pytest.raises(FanstoreError, match="no local directory"):
        local_dir.choose(None, environ={})


@pytest.mark.soak
def test_a_missing_local_directory_is_made_and_stays(stage: Stage) -> None:
    named, where = stage.path / "nodes" / "0", ("--local-dir", f"{stage.path}/nodes/{{rank}}")
    dataset = stage.dataset()
    for _ in range(2):
        stage.run(dataset, "ls", str(stage.mount), options=where)
    assert list(named.iterdir()) == [] and {p.stat().st_mode & 0o777 for p in (
        named, named.parent)} == {0o700}  # fmt: skip
    (stage.path / "file").touch()
    for wrong in ("file", "file/below"):
        refused = ("--local-dir", str(stage.path / wrong))
        said = stage.run(dataset, "true", options=refused, code=125).stderr
        assert f"local directory {stage.path / wrong} (--local-dir)" in said and "directory" in said


def test_a_local_directory_that_is_refused_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_dir, "fs_type", lambda path: "lustre")
    with pytest.raises(UsageError, match="network file system"):
        local_dir.choose(str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


def test_an_absent_codec_library_is_named_before_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = 1 << lib.FAN_CODEC_ZSTD
    codecs.check_codecs("data", 1 << lib.FAN_CODEC_STORE)
    libraries = {"zstd": ("libzstd.so.1", "cannot open"), "lz4": ("liblz4.so.1", None)}
    monkeypatch.setattr(codecs, "codec_libraries", lambda: libraries)
    with pytest.raises(FanstoreError, match=r"libzstd\.so\.1.*install libzstd1"):
        codecs.check_codecs("data", mask)
    codecs.check_codecs("data", 1 << lib.FAN_CODEC_LZ4HC)
