"""A record that is not sound is named, with its field and where it lies in the index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from fanstore._native import dtype_of
from fanstore.dataset import open_dataset
from fanstore.errors import DatasetDamaged
from fanstore.extract import extract, with_parents
from fanstore.verify import verify

ROOT = Path(__file__).resolve().parents[2]
HEADER_BYTES = 512
RECORD = dtype_of("struct fan_record")
DIRECTORY, FIRST_FILE = 1, 4  # three directories of five files


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "dataset"
    tool = ROOT / "tools" / "make_index.py"
    options = ["--files", "15", "--per-directory", "5", "--size", "100"]
    subprocess.run([sys.executable, tool, path, *options], check=True)
    return path


def put(dataset: Path, record: int, field: str, value: int) -> int:
    """Changes a field and makes the checksums right again; the field's offset in the file."""
    path = dataset / "index.fsi"
    data = bytearray(path.read_bytes())
    assert RECORD.fields is not None
    dtype, within = RECORD.fields[field][:2]
    at = HEADER_BYTES + record * RECORD.itemsize + int(within)
    data[at : at + dtype.itemsize] = value.to_bytes(dtype.itemsize, "little")
    for place, start, end in ((496, 512, len(data)), (504, 0, 504)):
        checksum = xxhash.xxh3_64_intdigest(bytes(data[start:end]))
        data[place : place + 8] = checksum.to_bytes(8, "little")
    path.write_bytes(data)
    return at


def test_a_sound_dataset(made: Path, tmp_path: Path) -> None:
    with open_dataset(made, verify=True) as dataset:
        dataset.check_records()
        assert verify(dataset).sound
        assert extract(dataset, tmp_path / "out", range(len(dataset.records))) == 19


@pytest.mark.parametrize(
    ("record", "field", "value", "named"),
    [
        (FIRST_FILE, "mode", 0o010644, "mode"),
        (FIRST_FILE, "owner", 1, "owner"),
        (FIRST_FILE, "parent", FIRST_FILE, "parent"),
        (FIRST_FILE, "parent", FIRST_FILE + 1, "parent"),
        (FIRST_FILE, "parent", 2, "parent"),
        (FIRST_FILE, "name_offset", 1 << 40, "name_offset"),
        (FIRST_FILE, "name_bytes", 0, "name_offset"),
        (FIRST_FILE + 1, "name_offset", 3 * 12, "name_offset"),
        (FIRST_FILE, "pack", 1, "pack"),
        (FIRST_FILE, "codec", 200, "offset"),
        (FIRST_FILE, "offset", (1 << 64) - 1, "offset"),
        (FIRST_FILE, "stored_size", 1 << 40, "offset"),
        (FIRST_FILE, "logical_size", (1 << 64) - 1, "offset"),
        (DIRECTORY, "offset", 0, "offset"),
        (DIRECTORY, "stored_size", 1 << 40, "offset"),
    ],
)
def test_an_unsound_record_is_named(
    made: Path, tmp_path: Path, record: int, field: str, value: int, named: str
) -> None:
    at = put(made, record, field, value)
    with open_dataset(made, verify=True) as dataset:
        with pytest.raises(DatasetDamaged) as caught:
            dataset.check_records()
        assert caught.value.field == f"records[{record}].{named}"
        if field == named:
            assert caught.value.offset == at
        findings = verify(dataset)
        assert any(f"records[{record}].{named} at offset" in line for line in findings.refused)
        with pytest.raises(DatasetDamaged):
            extract(dataset, tmp_path / "out", [0, DIRECTORY, FIRST_FILE])
        assert not (tmp_path / "out").exists()


def test_a_circle_of_parents_ends(made: Path) -> None:
    put(made, FIRST_FILE, "parent", FIRST_FILE)
    with open_dataset(made) as dataset, pytest.raises(DatasetDamaged):
        with_parents(dataset, [FIRST_FILE])
