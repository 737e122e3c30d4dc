"""prepare of a single file, and the default name of a dataset."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from archive_tools import Cpio, cpio_of, member, tar_of
from inprocess import call

from fanstore.errors import UsageError
from fanstore.prepare.archive import is_archive
from fanstore.prepare.run import default_target

ISO_START = bytes(0x8001) + b"CD001"
FILES = {
    "empty": b"",
    "text": b"#mtree\n./f type=file contents=/etc/passwd\n",
    "noise": bytes(range(256)) * 20_000,
    "zeros": bytes(2048),
    "table.csv.gz": gzip.compress(b"1,2,3\n" * 10_000),
    "gzip cut off": gzip.compress(os.urandom(9000))[:20],
    "tar.gz": b"a file with this name alone",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_a_dataset_of_one(tmp_path: Path, name: str) -> None:
    file, back = tmp_path / name, tmp_path / "back"
    file.write_bytes(FILES[name])
    file.chmod(0o640)
    os.utime(file, ns=(0, 1_600_000_000_123_456_789))
    call("prepare", file, "--quiet")
    call("extract", f"{file}.fan", back, "--quiet")
    assert os.listdir(back) == [name]
    assert (back / name).read_bytes() == FILES[name]
    mine, found = file.stat(), (back / name).stat()
    assert (found.st_mode, found.st_mtime_ns) == (mine.st_mode, mine.st_mtime_ns)
    assert call("prepare", "--update", file).stdout.endswith(b".fan: is up to date\n")
    file.write_bytes(b"new")
    call("prepare", "--update", file)
    call("extract", f"{file}.fan", back, "--quiet", "--force")
    assert (back / name).read_bytes() == b"new"


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("f", b"1")
    return out.getvalue()


ARCHIVES = {
    "tar": tar_of(member("f", b"1")), "gzip": gzip.compress(tar_of(member("f", b"1"))),
    "zip": zipped(), "cpio": cpio_of([Cpio(b"f", 0o100644, b"1")]), "iso": ISO_START,
    "a.tar": b"damaged", "a.TGZ": b"", "a.cpio.zst": b"damaged", "a.7z": b"damaged",
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_known_by_its_name_or_its_first_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(ARCHIVES[name])
    assert is_archive(tmp_path / name)


def test_an_archive_that_is_damaged_is_no_file_like_others(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(b"damaged")
    assert "a.tar.gz: " in call("prepare", tmp_path / "a.tar.gz", code=2).stderr
    assert os.listdir(tmp_path) == ["a.tar.gz"]


def test_the_default_name_is_beside_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v1.tar").mkdir()
    monkeypatch.chdir(tmp_path)
    names = {
        "imagenet": "imagenet.fan", "imagenet.tar.gz": "imagenet.fan", "a.b.zip": "a.b.fan",
        "table.csv": "table.csv.fan", "v1.tar/": "v1.tar.fan", "v1.tar/..": f"{tmp_path}.fan",
        ".": f"{tmp_path}.fan",
    }  # fmt: skip
    for source, target in names.items():
        assert default_target(Path(source)) == tmp_path / target
    for source in ("-", "/"):
        with pytest.raises(UsageError, match="give DST"):
            default_target(Path(source))


def test_the_default_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"1")
    with tarfile.open(tmp_path / "d.tar", "w") as archive:
        archive.add(tmp_path / "d" / "f", "g")
    assert b"d.fan: 1 file" in call("prepare", tmp_path / "d").stdout
    assert "d.fan" in call("prepare", tmp_path / "d.tar", code=2).stderr
    assert call("ls", tmp_path / "d.fan").stdout == b"f\n"
