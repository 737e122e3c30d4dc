"""fanstore.Dataset: the same as the directory that was packed."""

from __future__ import annotations

import glob
import multiprocessing
import os
import pickle
import random
import sys
import threading
from pathlib import Path

import pytest
from serving import make_stage

import fanstore
from fanstore.dataset import INDEX_NAME

ODD = ["with space", "new\nline", "ümläut", os.fsdecode(b"\xff\xfe"), ".hidden", "[x]"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("access") / "source"
    shuffled = random.Random(3)
    for name in ODD:
        (place / "odd" / name).mkdir(parents=True)
        (place / "odd" / name / name).write_bytes(os.fsencode(name))
    (place / "large").mkdir()
    (place / "large" / "chance").write_bytes(shuffled.randbytes(3_500_001))
    (place / "large" / "text").write_bytes(b"the same again and again\n" * 150_000)
    (place / "empty").touch()
    for name, target in (
        ("link", "large/text"), ("folder", "large"), ("up", "odd/../large"), ("self", "self"),
        ("outside", "/etc/passwd"), ("above", "../x"), ("large/back", "../empty"),
    ):  # fmt: skip
        (place / name).symlink_to(target)
    os.utime(place / "empty", ns=(10**9, 1_234_567_890_123_456_789))
    os.chmod(place / "empty", 0o640)
    return place


@pytest.fixture(scope="module", params=["store", "zstd", "lz4"])
def dataset(source: Path, request: pytest.FixtureRequest) -> fanstore.Dataset:
    import subprocess

    packed = source.parent / f"{request.param}.fan"
    command = [sys.executable, "-m", "fanstore", "prepare", "--quiet", "--codec", request.param]
    subprocess.run([*command, str(source), str(packed)], check=True)
    return fanstore.Dataset(packed)


def regular(source: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(source)): path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_it_is_a_mapping_of_all_files(dataset: fanstore.Dataset, source: Path) -> None:
    expected = regular(source)
    assert dict(dataset) == expected
    assert len(dataset) == len(expected) == len(list(dataset))
    for number, name in enumerate(dataset):
        assert dataset.path_of(number) == name
        assert dataset[number] == dataset[number - len(dataset)] == expected[name]
        assert dataset[os.fsencode(name)] == dataset[Path(name)] == dataset.view(name)
        assert name in dataset and Path(name) in dataset


def test_parts_are_those_of_the_file(dataset: fanstore.Dataset, source: Path) -> None:
    shuffled = random.Random(4)
    for name in ("large/chance", "large/text", "empty"):
        whole = (source / name).read_bytes()
        for _ in range(50):
            offset, size = shuffled.randrange(4_000_000), shuffled.randrange(2_000_000)
            assert dataset.read(name, offset, size) == whole[offset : offset + size]
        assert dataset.read(name) == whole
        assert dataset.read(name, 7) == whole[7:]
        with dataset.open(name) as ours, open(source / name, "rb") as theirs:
            for _ in range(50):
                at = shuffled.randrange(4_000_000)
                assert ours.seek(at) == theirs.seek(at)
                assert ours.read(1000) == theirs.read(1000)
            assert ours.seek(0, os.SEEK_END) == theirs.seek(0, os.SEEK_END)
    with dataset.open("large/text", "r", encoding="ascii") as ours:
        assert ours.readline() == "the same again and again\n"


def test_the_tree_is_that_of_the_directory(dataset: fanstore.Dataset, source: Path) -> None:
    expected = {os.path.relpath(d, source): (set(dirs), set(files))
                for d, dirs, files in os.walk(source)}  # fmt: skip
    expected = {"" if path == "." else path: names for path, names in expected.items()}
    found = {path: (set(dirs), set(files)) for path, dirs, files in dataset.walk()}
    links = {name for name in os.listdir(source) if (source / name).is_symlink()}
    expected[""] = (expected[""][0] - links, expected[""][1] | links)  # os.walk has them as folders
    assert found == expected
    assert dataset.listdir("odd") == sorted(os.listdir(source / "odd"), key=os.fsencode)
    for name in dataset:
        ours, theirs = dataset.stat(name), os.stat(source / name)
        for field in ("st_mode", "st_size", "st_mtime_ns", "st_uid", "st_gid", "st_nlink"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
    assert dataset.readlink("link") == "large/text"
    assert dataset.stat("link", follow=False).st_mode == os.lstat(source / "link").st_mode


@pytest.mark.parametrize(
    "pattern",
    ["*", "*/*", "**", "**/*", "large/*", "odd/*/*", "odd/.*", "odd/[[]x]/*", "e*", "no*"],
)
def test_patterns_match_what_glob_matches(
    dataset: fanstore.Dataset, source: Path, pattern: str
) -> None:
    expected = {each.rstrip("/") for each in glob.glob(pattern, root_dir=source, recursive=True)}
    behind_links = {each for each in expected if each.startswith(("folder/", "up/"))}
    assert set(dataset.glob(pattern)) == expected - behind_links - {""}


def test_links_are_followed(dataset: fanstore.Dataset, source: Path) -> None:
    text = (source / "large/text").read_bytes()
    for name in ("link", "folder/text", "up/text", "folder/../large/text", "./large//text"):
        assert dataset[name] == text
        assert name in dataset
    assert dataset["folder/back"] == b""
    assert dataset.isdir("folder") and dataset.exists("up") and not dataset.isdir("link")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no", FileNotFoundError), ("/etc/passwd", FileNotFoundError),
        ("outside", FileNotFoundError), ("above", FileNotFoundError), ("self", OSError),
        ("empty/x", NotADirectoryError), ("large", IsADirectoryError), ("a\0b", FileNotFoundError),
        ("x" * 300, FileNotFoundError),
    ],
)  # fmt: skip
def test_what_is_no_file(dataset: fanstore.Dataset, path: str, error: type[OSError]) -> None:
    with pytest.raises(KeyError):
        dataset[path]
    assert path not in dataset
    assert dataset.get(path, b"?") == b"?"
    with pytest.raises(error):
        dataset.open(path)


def test_wrong_arguments(dataset: fanstore.Dataset) -> None:
    with pytest.raises(IndexError, match=f"file {len(dataset)} of {len(dataset)}"):
        dataset[len(dataset)]
    with pytest.raises(TypeError):
        dataset[1.5]  # type: ignore[index]
    with pytest.raises(ValueError, match="offset is -1"):
        dataset.read("empty", -1)
    with pytest.raises(ValueError, match="read-only"):
        dataset.open("empty", "wb")
    with pytest.raises(OSError, match="Invalid"):
        dataset.readlink("empty")
    assert 1.5 not in dataset and None not in dataset


def test_it_goes_to_other_processes_and_threads(dataset: fanstore.Dataset, source: Path) -> None:
    expected = regular(source)
    again = pickle.loads(pickle.dumps(dataset))
    assert dict(again) == expected and again != dataset
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            contents = pool.map(dataset.__getitem__, dataset)
            assert dict(zip(dataset, contents, strict=True)) == expected
    fresh, found = fanstore.Dataset(dataset.path), []
    threads = [threading.Thread(target=lambda: found.append(dict(fresh))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_what_is_closed(dataset: fanstore.Dataset, source: Path) -> None:
    with fanstore.Dataset(dataset.path) as opened:
        view, stream = opened.view("large/chance"), opened.open("large/text")
    opened.close()
    assert view == (source / "large/chance").read_bytes()
    assert "closed" in repr(opened)
    for use in (
        lambda: opened["empty"], lambda: opened[0], lambda: len(opened), lambda: list(opened),
        lambda: opened.listdir(), lambda: opened.glob("*"), lambda: "empty" in opened,
        lambda: stream.read(), lambda: list(opened.walk()), opened.__enter__,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_damage_is_found(dataset: fanstore.Dataset, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(dataset.path, copy)
    [pack] = copy.glob("pack-*.fsp")
    content = bytearray(pack.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 100_000] = bytes(100_000)
    pack.write_bytes(content)
    damaged = []
    with fanstore.Dataset(copy) as opened:
        for name in dataset:
            try:
                assert opened[name] == dataset[name]
            except fanstore.DatasetDamaged as error:
                damaged.append(name)
                assert name in str(pickle.loads(pickle.dumps(error)))
                with pytest.raises(fanstore.DatasetDamaged):
                    opened.view(name)
    assert damaged
    pack.write_bytes(content[:-100])
    with fanstore.Dataset(copy) as opened, pytest.raises(fanstore.DatasetDamaged):
        opened["empty/../large/text"]
    pack.unlink()
    with fanstore.Dataset(copy) as opened, pytest.raises(fanstore.DatasetDamaged, match="missing"):
        opened["large/text"]
    (copy / INDEX_NAME).write_bytes(b"FAN" * 1000)
    with pytest.raises(fanstore.DatasetDamaged):
        fanstore.Dataset(copy)


def test_there_is_no_dataset(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no"):
        with pytest.raises(fanstore.FanstoreError, match="no"):
            fanstore.Dataset(path)


PROGRAM = """
import hashlib, os, sys, fanstore
dataset = fanstore.Dataset(sys.argv[1])
assert dataset.is_mounted == (sys.argv[2] == "mounted"), dataset.is_mounted
for name in dataset:
    print(hashlib.sha256(dataset[name] + dataset.view(name) + dataset.read(name, 3, 9)).hexdigest())
"""


def test_under_a_job_content_comes_through_it(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    files = {f"d/{n:03}": bytes([n]) * (10 + n) for n in range(50)}
    packed = str(stage.dataset(stage.source(files=files)))
    command = [sys.executable, "-c", PROGRAM, packed]
    import subprocess

    alone = subprocess.run([*command, "alone"], capture_output=True, text=True, check=True)
    where = ("--dataset", packed, "--mount", str(stage.mount))
    done = stage.call("run", *where, "--", *command, "mounted")
    assert done.stdout == alone.stdout
    assert "150 files opened" in done.stderr
