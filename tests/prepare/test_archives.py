"""prepare from archives: packed as if they had been unpacked first, or refused by name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard
from archive_tools import END, Cpio, block_of, cpio_of, member, pax_block, tar_of
from inprocess import call
from soak import sampled
from trees import make_odd_tree, snapshot

from fanstore._native import archives
from fanstore.dataset import open_dataset
from fanstore.trees import remove_tree

LIMIT_S = 60.0
TAR = shutil.which("tar") or ""
needs_tar = pytest.mark.skipif(not TAR, reason="no tar here")


def packed(archive: Path, back: Path) -> dict[bytes, object]:
    """What prepare makes of an archive, by unpacking the dataset."""
    data = back.with_suffix(".data")
    call("prepare", archive, data, "--quiet")
    call("verify", "--quiet", data)
    call("extract", "--quiet", data, back)
    return dict(snapshot(back))


def untarred(archive: Path, back: Path) -> dict[bytes, object]:
    """What tar makes of it."""
    back.mkdir()
    argv = [TAR, "--numeric-owner", "-xpf", archive, "-C", back]
    subprocess.run(argv, check=True, timeout=LIMIT_S)
    return dict(snapshot(back))


def refused(data: bytes, tmp_path: Path, *words: str) -> None:
    """Prepare names what is wrong, makes nothing, and leaves nothing."""
    archive = tmp_path / "bad.tar"  # by its name an archive, whatever it begins with
    archive.write_bytes(data)
    done = call("prepare", archive, tmp_path / "data", code=None)
    assert done.code in (2, 125), done
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["bad.tar"]


@needs_tar
@pytest.mark.parametrize("form", sampled(["gnu", "pax", "ustar"], ["pax"]))
def test_as_if_unpacked_by_tar(tmp_path: Path, form: str) -> None:
    make_odd_tree(tmp_path / "tree")
    if form == "ustar":  # does not know all of it
        for part in ("names", "links", "times", "shapes"):
            shutil.rmtree(tmp_path / "tree" / part)
    argv = [TAR, f"--format={form}", "--sparse", "-cf", "a.tar", "-C", "tree", "."]
    if form == "ustar":
        argv.remove("--sparse")
    subprocess.run(argv, cwd=tmp_path, check=True, timeout=LIMIT_S)
    found = packed(tmp_path / "a.tar", tmp_path / "back")
    assert found == untarred(tmp_path / "a.tar", tmp_path / "by-tar")


@needs_tar
@pytest.mark.parametrize("form", ["oldgnu", "0.0", "0.1", "1.0"])
def test_sparse_files_of_every_form(tmp_path: Path, form: str) -> None:
    (tmp_path / "tree").mkdir()
    for name, runs in {"many": range(60), "hole": [], "end": [0]}.items():
        with (tmp_path / "tree" / name).open("wb") as file:
            for run in runs:
                file.seek(run * 50_000)
                file.write(b"run %d" % run * 100)
            file.truncate(9_000_001)
    kind = ["--format=oldgnu"] if form == "oldgnu" else [f"--sparse-version={form}"]
    argv = [TAR, "--sparse", *kind, "-cf", "a.tar", "-C", "tree", "."]
    subprocess.run(argv, cwd=tmp_path, check=True, timeout=LIMIT_S)
    assert (tmp_path / "a.tar").stat().st_size < 1_000_000
    found = packed(tmp_path / "a.tar", tmp_path / "back")
    assert found == untarred(tmp_path / "a.tar", tmp_path / "by-tar")


FILTERS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "lz4": lz4.frame.compress,
}


def some_tar(count: int = 3) -> bytes:
    return tar_of(*(member(f"d/{n}", b"%d" % n * 5000) for n in range(count)))


@pytest.mark.parametrize("kind", FILTERS)
def test_compressed_archives(tmp_path: Path, kind: str) -> None:
    whole = FILTERS[kind](some_tar())
    (tmp_path / "a").write_bytes(whole)
    assert len(packed(tmp_path / "a", tmp_path / "back")) == 5
    (tmp_path / "cut").mkdir()
    refused(whole[: len(whole) - len(whole) // 8 - 1030], tmp_path / "cut")


@pytest.mark.parametrize("kind", ["none", "gz", "zip"])
def test_an_archive_from_a_pipe(tmp_path: Path, kind: str) -> None:
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "a", "w") as archive:
            archive.writestr("d/0", "zero")
    else:
        (tmp_path / "a").write_bytes(FILTERS[kind](some_tar()))
    argv = [sys.executable, "-m", "fanstore", "prepare", "-", str(tmp_path / "data")]
    with (tmp_path / "a").open("rb") as whole:
        shell = f"cat | {shlex.join(argv)}"
        subprocess.run(["sh", "-c", shell], stdin=whole, check=True, timeout=LIMIT_S)
    assert b"d/0\n" in call("ls", "-R", tmp_path / "data").stdout
    assert sorted(os.listdir(tmp_path)) == ["a", "data"]


def test_no_archive_on_standard_input(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "fanstore", "prepare", "-", str(tmp_path / "data")]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 2
    assert b"is empty, so is no archive" in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_zip_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("d/", "")
        for name, mode, content in (
            ("d/run", stat.S_IFREG | 0o755, b"#!/bin/sh\n" * 500_000),
            ("d/link", stat.S_IFLNK | 0o777, b"run"),
            ("snow\u2603", stat.S_IFREG | 0o600, b"white"),
        ):
            info = zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2))
            info.create_system, info.external_attr = 3, mode << 16
            info.extra = b"UT\5\0\1" + (1_580_608_923).to_bytes(4, "little")
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    packed(tmp_path / "a.zip", tmp_path / "back")
    back = tmp_path / "back"
    assert (back / "d" / "run").read_bytes() == b"#!/bin/sh\n" * 500_000
    assert os.readlink(back / "d" / "link") == "run"
    assert stat.S_IMODE((back / "d" / "run").stat().st_mode) == 0o755
    assert (back / "snow\u2603").stat().st_mtime == 1_580_608_923


def zip_of(*infos: tuple[str, bytes], mode: int = stat.S_IFREG | 0o644) -> bytes:
    import io

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in infos:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            archive.writestr(info, content)
    return out.getvalue()


def test_hostile_zip_archives(tmp_path: Path) -> None:
    sound = zip_of(("first", b"one" * 100), ("second", b"two" * 100))
    wrong = sound.replace(b"one" * 100, b"One" + b"one" * 99)
    refused(wrong, tmp_path, "first: ", "CRC")
    at = sound.index(b"PK\1\2")
    longer = bytearray(sound)
    longer[at + 24 : at + 28] = (500).to_bytes(4, "little")  # the size in the directory
    refused(bytes(longer), tmp_path, "first: ")
    locked = bytearray(sound)
    locked[at + 8] |= 1
    refused(bytes(locked), tmp_path, "first: is encrypted")
    refused(sound[:-10], tmp_path, "zip archive")
    refused(zip_of(("../up", b"")), tmp_path, "../up: leads out of the archive")
    refused(zip_of(("l", b""), mode=stat.S_IFLNK | 0o777), tmp_path, "l: ", "without a target")


@pytest.fixture(params=["the system's", "the package's"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each libarchive that is here in turn."""
    places = list(archives._places())
    name = places[0] if request.param == "the system's" else (places[1:] or ["none"])[0]
    monkeypatch.setattr(archives, "_places", lambda: iter([name]))
    archives.libarchive.cache_clear()
    try:
        archives.libarchive()
    except OSError:
        archives.libarchive.cache_clear()
        pytest.skip(f"{request.param} libarchive is not here")
    return name


def test_a_cpio_archive(library: str, tmp_path: Path) -> None:
    odd = b"latin\xe9 \n name"
    whole = cpio_of(
        [
            Cpio(b".", stat.S_IFDIR | 0o755),
            Cpio(odd, stat.S_IFREG | 0o640, b"odd" * 999_999),
            Cpio(b"link", stat.S_IFLNK | 0o777, odd),
            Cpio(b"one", stat.S_IFREG | 0o644, b"", 77, 2),
            Cpio(b"two", stat.S_IFREG | 0o644, b"stored with the last name", 77, 2),
        ]
    )
    (tmp_path / "a.cpio").write_bytes(whole)
    found = packed(tmp_path / "a.cpio", tmp_path / "back")
    assert sorted(found) == [b"", odd, b"link", b"one", b"two"]
    assert (tmp_path / "back" / "one").read_bytes() == b"stored with the last name"
    assert (tmp_path / "back" / "one").stat().st_nlink == 2
    (tmp_path / "cut").mkdir()
    refused(whole[:2_000_000], tmp_path / "cut")
    (tmp_path / "out").mkdir()
    outside = cpio_of([Cpio(b"../up", stat.S_IFREG | 0o644)])
    refused(outside, tmp_path / "out", "../up: leads out of the archive")


def test_without_libarchive_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_places", lambda: iter(["libnone.so.0"]))
    archives.libarchive.cache_clear()
    refused(cpio_of([]), tmp_path, "neither a tar nor a zip archive", "fanstore-fs[archives]")
    archives.libarchive.cache_clear()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "time": (tar_of(member("f", pax_headers={"mtime": "1e30"})), "f: has a time that is no number"),
    "late": (tar_of(member("f", pax_headers={"mtime": "9" * 25})), "f: has a time outside"),
    "early": (tar_of(member("f", mtime=-(10**12))), "f: has a time outside"),
    "uid": (tar_of(member("f", uid=2**40)), f"f: has the uid {2**40}"),
    "no uid": (tar_of(member("f", pax_headers={"uid": "abc"})), "f: has a uid that is no number"),
    "gid": (tar_of(member("f", gid=-5)), "f: has the gid -5"),
    "size": (block_of(b"f", b"\xff" * 12) + END, "impossible size for f"),
    "cut": (block_of(b"f", b"77777777777\0") + END, "is cut off within the content"),
    "huge": (block_of(b"f", b"\x80\0\0\0\x7f" + b"\xff" * 7) + END, "is cut off"),
    "header": (some_tar()[:10240].replace(b"d/1", b"d/x"), "behind d/0"),
    "half": (some_tar()[: 6144 * 2 + 100], "is cut off within"),
    "no end": (tar_of(member("f"), end=False), "f: is followed by nothing"),
    "two": (some_tar() + some_tar(), "d/2: is followed by an end mark, and by another archive"),
    "nul": (
        pax_block(("path", "a\0b")) + block_of(b"f") + END,
        "a\\x00b: has a NUL in its name",
    ),
    "name": (tar_of(member("a/" + "n" * 300)), "has a name of more than 255 bytes"),
    "path": (tar_of(member("d/" * 20_000 + "f")), "has a name of 40,001 bytes"),
    "nameless": (tar_of(member(".")), ".: has no name"),
    "up": (tar_of(member("a/../../f")), "a/../../f: leads out of the archive"),
    "empty target": (tar_of(member("l", kind=tarfile.SYMTYPE)), "l: is a symbolic link without"),
    "long target": (
        tar_of(member("l", kind=tarfile.SYMTYPE, link="t" * 5000)),
        "l: is a symbolic link with a target of 5,000 bytes",
    ),
    "fifo": (tar_of(member("p", kind=tarfile.FIFOTYPE)), "p: is a fifo"),
    "device": (tar_of(member("n", kind=tarfile.CHRTYPE)), "n: is a character device"),
    "missing": (tar_of(member("l", kind=tarfile.LNKTYPE, link="no")), "l: is a link to no, which"),
    "later": (
        tar_of(member("l", kind=tarfile.LNKTYPE, link="f"), member("f")),
        "l: is a link to f, which is not a file before it",
    ),
    "own": (tar_of(member("l", kind=tarfile.LNKTYPE, link="l")), "l: is a link to l"),
    "behind": (tar_of(member("f"), member("f/g")), "f/g: lies behind what is not a directory"),
    "kind": (tar_of(member("f", kind=b"Q")), "f: is of the kind 'Q', which is not known"),
    "records": (block_of(b"p", b"10", b"x") + b"garbage!".ljust(512, b"\0"), "pax header"),
    "extended": (block_of(b"p", b"\x80\0\0\0\x7f" + b"\xff" * 7, b"L") + END, "extended header"),
    "map": (
        pax_block(("GNU.sparse.map", "0,10,5,10"), ("GNU.sparse.size", "20"))
        + block_of(b"f", b"24") + bytes(512) + END,
        "wrong map of the sparse file f",
    ),
    "map 1.0": (
        pax_block(
            ("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "9")
        ) + block_of(b"f", b"1000") + b"9" * 512 + END,
        "wrong map of the sparse file f",
    ),
    "noise": (bytes(range(256)) * 20, "bad.tar: "),
    "empty": (b"", "is empty, so is no archive"),
    "text": (b"#mtree\n./f type=file contents=/etc/passwd\n", "bad.tar: "),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_are_refused_by_name(tmp_path: Path, case: str) -> None:
    data, words = HOSTILE[case]
    refused(data, tmp_path, words)


def test_what_declares_more_than_there_is_room_is_refused(tmp_path: Path) -> None:
    size = 1 << 60
    sparse = pax_block(("GNU.sparse.map", "0,4"), ("GNU.sparse.size", str(size)))
    refused(
        sparse + block_of(b"f", b"4") + b"data".ljust(512, b"\0") + END,
        tmp_path, "1,048,576.0 TiB", "free in",
    )  # fmt: skip
    old = block_of(
        b"f", b"4", b"S", at386=b"00000000000\0" + b"00000000004\0",
        at483=b"\x80\0\0\0" + size.to_bytes(8, "big"),
    )  # fmt: skip
    refused(old + b"data".ljust(512, b"\0") + END, tmp_path, "1,048,576.0 TiB", "free in")


@needs_tar
def test_what_is_odd_but_sound_is_packed_as_tar_does(tmp_path: Path) -> None:
    slash = block_of(b"slash/", at257=bytes(8))
    members = tar_of(
        member("/abs", b"absolute"),
        member("twice", b"first"), member("kept", kind=tarfile.LNKTYPE, link="/twice"),
        member("twice", b"second and longer"),
        member("f", b"was a file"), member("f", kind=tarfile.DIRTYPE, mode=0o755),
        member("d", kind=tarfile.DIRTYPE, mode=0o700),
        member("d", kind=tarfile.DIRTYPE, mode=0o711),
        member("new\nline", b"n"), member("latin\udce9", b"l"),
        member("to", b"", tarfile.SYMTYPE, "x" * 4095),
        member("nano", b"", pax_headers={"mtime": "-1.000000001"}),
    )  # fmt: skip
    (tmp_path / "a.tar").write_bytes(slash + members)
    found = packed(tmp_path / "a.tar", tmp_path / "back")
    by_tar = untarred(tmp_path / "a.tar", tmp_path / "by-tar")
    for facts in (found, by_tar):
        facts.pop(b"")  # no member: now, and 1970
    assert found == by_tar


def test_what_cannot_be_packed_is_left_out_by_name(tmp_path: Path) -> None:
    bad = member("l", kind=tarfile.SYMTYPE)
    (tmp_path / "a.tar").write_bytes(tar_of(member("f", b"f"), bad, member("g", b"g")))
    done = call("prepare", tmp_path / "a.tar", tmp_path / "data", "--skip-unreadable")
    assert "left out: l: is a symbolic link without a target" in done.stderr
    with open_dataset(tmp_path / "data") as dataset:
        assert dataset.header.file_count == 2


def test_deep_trees_cost_in_proportion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chains of directories, side by side, are unpacked and removed: deeper than Python
    recurses, and than descriptors can be open."""
    levels = 1100
    names = [f"{chain}/" * levels + "f" for chain in "ab"]
    members = [member(name, name[:9].encode(), mode=0o444) for name in names]
    (tmp_path / "a.tar").write_bytes(tar_of(*members))
    call("prepare", tmp_path / "a.tar", tmp_path / "data", "--quiet")
    opened = []
    real = os.open

    def counting(*arguments: Any, **keywords: Any) -> int:
        opened.append(arguments[0])
        return real(*arguments, **keywords)

    monkeypatch.setattr(os, "open", counting)
    call("extract", "--quiet", tmp_path / "data", tmp_path / "back")
    monkeypatch.undo()
    assert len(opened) < 10 * 2 * levels
    for chain in "ab":
        at = os.open(tmp_path / "back", os.O_RDONLY)
        for _ in range(levels):
            below = os.open(chain, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        fd = os.open("f", os.O_RDONLY, dir_fd=at)
        assert os.read(fd, 99) == f"{chain}/".encode() * 4 + chain.encode()
        os.close(fd)
        os.close(at)
    shutil.rmtree(tmp_path / "data")
    remove_tree(tmp_path / "back")
    assert os.listdir(tmp_path) == ["a.tar"]
