"""ls, info, verify and extract, from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import xxhash
from inprocess import call
from trees import ODD_NAMES, make_odd_tree, snapshot

from fanstore._native import dtype_of, lib
from fanstore.dataset import open_dataset


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tools") / "source"
    make_odd_tree(root)
    return root


@pytest.fixture(scope="module")
def data(source: Path) -> Path:
    call("prepare", source, source.parent / "data", "--codec", "auto", "--partitions", "2")
    return source.parent / "data"


def test_ls_prints_names_sorted_as_they_are(data: Path, source: Path) -> None:
    names = call("ls", data, "names", "-0").stdout.split(b"\0")
    assert names[-1] == b""
    assert names[:-1] == sorted(os.listdir(os.fsencode(source / "names")))
    assert set(ODD_NAMES) <= set(names)
    assert call("ls", data).stdout.split() == sorted(os.listdir(os.fsencode(source)))


@pytest.mark.parametrize("path", ["links/one", "./links//one", "links/elsewhere/../one"])
def test_ls_of_a_file(data: Path, path: str) -> None:
    assert call("ls", data, path).stdout == b"links/one\n"


def test_ls_recursive_prints_every_path(data: Path, source: Path) -> None:
    names = call("ls", "-R", "-0", data).stdout.split(b"\0")[:-1]
    assert sorted(names) == sorted(snapshot(source).keys() - {b""})
    below = call("ls", "-R", data, "links").stdout.split(b"\n")
    assert b"links/elsewhere/two" in below


def test_ls_long_is_as_ls_prints_it(data: Path, source: Path) -> None:
    for folder in ("links", "modes", "times"):
        argv = ["ls", "-lAn", "--time-style=long-iso", "--quoting-style=literal", "--sort=none"]
        env = {**os.environ, "LC_ALL": "C"}
        native = subprocess.run([*argv, source / folder], capture_output=True, check=True, env=env)
        mine = call("ls", "-l", data, folder).stdout

        def words(text: bytes) -> list[list[bytes]]:
            """Lines without the sizes of directories, which are file systems' own."""
            lines = [line.split(None, 7) for line in text.split(b"\n") if len(line.split()) > 3]
            return sorted([*w[:4], b"" if w[0][:1] == b"d" else w[4], *w[5:]] for w in lines)

        assert words(mine) == words(native.stdout)


@pytest.mark.parametrize("tool", ["ls", "extract"])
def test_a_path_that_is_not_there(data: Path, tmp_path: Path, tool: str) -> None:
    where = () if tool == "ls" else (tmp_path / "out",)
    done = call(tool, data, *where, "no/such", code=2)
    assert done.stderr == "fanstore: error: no/such: no such file in the dataset\n"


@pytest.mark.parametrize("arguments", [("ls",), ("info",), ("verify",), ("extract", "{out}")])
def test_what_is_no_dataset(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    tool, *rest = (word.format(out=tmp_path / "out") for word in arguments)
    done = call(tool, tmp_path, *rest, code=2)
    said = r"not a dataset \(no index\.fsi\): `fanstore prepare` makes one of a directory"
    assert re.fullmatch(rf"fanstore: error: .*: {said}\n", done.stderr)
    assert "none: no such directory\n" in call(tool, tmp_path / "none", *rest, code=2).stderr
    file = tmp_path / "index.fsi"
    file.write_bytes(b"")
    assert "a file: name the directory that it is in" in call(tool, file, *rest, code=2).stderr
    file.rename(tmp_path / "pack-00000.fsp")
    assert "`fanstore dataset rebuild-index` makes it" in call(tool, tmp_path, *rest, code=3).stderr
    call(tool, code=2)


def test_info_counts_and_costs(data: Path, source: Path) -> None:
    info = json.loads(call("info", "--json", data).stdout)
    kinds = [str(facts[0])[:-4] for facts in snapshot(source).values()]
    assert info["files"] == kinds.count("0o10")
    assert info["directories"] == kinds.count("0o4")
    assert info["symbolic_links"] == kinds.count("0o12")
    assert info["packs"] == 2
    assert info["pack_bytes"] == sum(p.stat().st_size for p in data.glob("pack-*"))
    assert info["index_bytes"] == (data / "index.fsi").stat().st_size
    assert sum(info["files_by_codec"].values()) == info["files"]
    assert str(info["packs"]) in call("info", data).stdout.decode()


def test_the_index_costs_130_bytes_a_record(tmp_path: Path) -> None:
    for i in range(10_000):
        folder = tmp_path / "source" / f"{i % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}").touch()
    call("prepare", tmp_path / "source", tmp_path / "data")
    info = json.loads(call("info", "--json", tmp_path / "data").stdout)
    assert info["files"] == 10_000
    assert info["index_bytes_per_record"] <= 130.1


def test_verify_says_what_it_checked(data: Path, source: Path) -> None:
    found = json.loads(call("verify", "--json", data).stdout)
    assert found["refused"] == found["damaged_files"] == []
    assert found["files"] == json.loads(call("info", "--json", data).stdout)["files"]
    assert call("verify", data).stdout.decode().endswith(": sound\n")
    assert call("verify", "--quiet", data).stdout == b""


def test_extract_some_paths(data: Path, source: Path, tmp_path: Path) -> None:
    call("extract", data, tmp_path / "out", "links/elsewhere", "names", "times/t0")
    found, whole = snapshot(tmp_path / "out"), snapshot(source)
    expected = {b"", b"links", b"links/elsewhere", b"links/elsewhere/two", b"names", b"times"}
    expected |= {path for path in whole if path.startswith(b"names/")} | {b"times/t0"}
    assert set(found) == expected
    for path in expected - {b"links/elsewhere/two"}:
        assert found[path] == whole[path]
    two = found[b"links/elsewhere/two"]
    assert two[:4] == whole[b"links/elsewhere/two"][:4]
    assert two[-1] == whole[b"links/elsewhere/two"][-1]


def test_extract_does_not_replace_the_dataset_that_it_reads(data: Path, tmp_path: Path) -> None:
    before = snapshot(data)
    for destination in (data, data.parent, data / "index.fsi", data / "new"):
        done = call("extract", "--force", data, destination, code=2)
        assert " inside " in str(done.stderr)
    assert snapshot(data) == before


def test_hard_links_stay_links_without_their_first_name(tmp_path: Path) -> None:
    root = tmp_path / "source"
    for name in ("a", "b", "c"):
        (root / name).mkdir(parents=True)
    (root / "a" / "x").write_bytes(b"linked")
    (root / "b" / "x").hardlink_to(root / "a" / "x")
    (root / "c" / "x").hardlink_to(root / "a" / "x")
    call("prepare", root, tmp_path / "data")
    call("extract", tmp_path / "data", tmp_path / "out", "b", "c")
    assert (tmp_path / "out" / "b" / "x").samefile(tmp_path / "out" / "c" / "x")


def test_extract_replaces_only_with_force(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    call("extract", data, tmp_path / "out", "times", code=2)
    assert os.listdir(tmp_path / "out") == ["mine"]
    call("extract", data, tmp_path / "out", "times", "--force")
    assert os.listdir(tmp_path / "out") == ["times"]
    assert os.listdir(tmp_path) == ["out"]
    call("extract", data, tmp_path / "no" / "out", code=2)


def test_extract_leaves_damaged_files_out(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for name in ("good", "bad"):
        (tmp_path / "source" / name).write_bytes(name.encode() * 100)
    call("prepare", tmp_path / "source", tmp_path / "data")
    pack = tmp_path / "data" / "pack-00000.fsp"
    pack.write_bytes(pack.read_bytes().replace(b"badbad", b"bedbad", 1))
    done = call("extract", tmp_path / "data", tmp_path / "out", code=3)
    assert re.search(r"damaged, not extracted:\n +bad\n", done.stderr)
    assert os.listdir(tmp_path / "out") == ["good"]


@pytest.mark.parametrize("name", [b"..", b"../x", b"/etc", b"a\0b", b"."])
def test_extract_refuses_names_that_lead_outside(tmp_path: Path, name: bytes) -> None:
    """A name in the index that is none: nothing at all is written."""
    (tmp_path / "source").mkdir()
    placeholder = b"p" * len(name)
    (tmp_path / "source" / placeholder.decode()).write_bytes(b"hostile")
    call("prepare", tmp_path / "source", tmp_path / "data")
    index = tmp_path / "data" / "index.fsi"
    with open_dataset(tmp_path / "data") as dataset:
        names = dataset.header.sections[lib.FAN_SECTION_NAMES]
        at = names.offset + dataset.record(1).name_offset
    whole = bytearray(index.read_bytes())
    assert whole[at : at + len(name)] == placeholder
    whole[at : at + len(name)] = name
    header_bytes = dtype_of("struct fan_index_header").itemsize
    body = xxhash.xxh3_64_intdigest(bytes(whole[header_bytes:]))
    whole[header_bytes - 16 : header_bytes - 8] = body.to_bytes(8, "little")
    header = xxhash.xxh3_64_intdigest(bytes(whole[: header_bytes - 8]))
    whole[header_bytes - 8 : header_bytes] = header.to_bytes(8, "little")
    index.write_bytes(whole)
    done = call("extract", tmp_path / "data", tmp_path / "out" / "deep", code=2)
    (tmp_path / "out").mkdir()
    done = call("extract", tmp_path / "data", tmp_path / "out" / "deep", code=3)
    assert "records[1].name_offset at offset " in done.stderr
    assert os.listdir(tmp_path / "out") == []
    assert sorted(os.listdir(tmp_path)) == ["data", "out", "source"]
