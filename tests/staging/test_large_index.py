"""Very many files: a million in one index, and 171,264 in one directory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inprocess import call

from fanstore.dataset import open_dataset

ROOT = Path(__file__).resolve().parents[2]
FANSTORE = [sys.executable, "-m", "fanstore"]
MILLION = 1_000_000
MANY = 171_264
CONTENT_BYTES = 1000

# Run under FanStore: looks 1,000 files up, then says how its index mapping stands.
CLIENT = """
import json, os, sys
top = sys.argv[1]
for i in range(0, 1000000, 1000):
    path = f"{top}/dir-{i // 1000:08}/file-{i:08}.bin"
    assert os.stat(path).st_size == 1000
with open(path, "rb") as file:
    assert len(file.read()) == 1000
found, inside = {}, False
for line in open("/proc/self/smaps"):
    fields = line.split()
    if not fields[0].endswith(":"):
        inside = line.rstrip().endswith("index.fsi")
        if inside:
            found["mode"] = fields[1]
    elif inside and fields[0] in ("Private_Dirty:", "Anonymous:", "Size:"):
        found[fields[0]] = int(fields[1])
print(json.dumps(found))
"""

# Run under FanStore: the least processor time of some rounds, in ns an entry, to list and to stat.
SCAN = """
import os, sys, time
def scan(top):
    count = 0
    for folder in os.scandir(top):
        for entry in os.scandir(folder.path):
            os.stat(entry.path)
            count += 1
    return count
best = 1e9
for _ in range(5):
    start = time.process_time_ns()
    count = scan(sys.argv[1])
    best = min(best, (time.process_time_ns() - start) / count)
print(count, best)
"""


def make(path: Path, *options: str) -> Path:
    command = [sys.executable, ROOT / "tools" / "make_index.py", path, *options]
    subprocess.run(command, check=True)
    return path


def run_under(dataset: Path, mount: Path, code: str) -> str:
    options = ["--dataset", dataset, "--mount", mount, "--in-place", "--quiet"]
    command = [*FANSTORE, "run", *options, "--", sys.executable, "-c", code, mount]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    return result.stdout


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = make(tmp_path_factory.mktemp("large") / "million")
    yield path
    for file in path.iterdir():
        file.unlink()


def test_generated_dataset_is_sound(tmp_path: Path) -> None:
    made = make(tmp_path / "small", "--files", "2500", "--per-directory", "1000")
    with open_dataset(made, verify=True) as dataset:
        dataset.check_pack_header(0)
        assert len(dataset.records) == 1 + 3 + 2500
        record = dataset.lookup(b"dir-00000002/file-00002499.bin")
        assert dataset.relpath(record) == b"dir-00000002/file-00002499.bin"
        assert dataset.records[record]["logical_size"] == CONTENT_BYTES


def test_more_directories_than_st_nlink_can_tell(tmp_path: Path) -> None:
    made = make(tmp_path / "wide", "--files", "65534", "--per-directory", "1", "--no-entries")
    with open_dataset(made, verify=True) as dataset:
        dataset.check_records()
        assert dataset.records[0]["nlink"] == 1


def test_the_index_is_shared_between_processes(million: Path, tmp_path: Path) -> None:
    mapping = json.loads(run_under(million, tmp_path / "mount", CLIENT))
    assert mapping["mode"] in ("r--s", "r--p")
    assert mapping["Size:"] * 1024 >= MILLION * 64
    assert mapping["Private_Dirty:"] == 0
    assert mapping["Anonymous:"] == 0


@pytest.mark.soak
def test_a_large_directory_costs_as_much_an_entry_as_a_small_one(tmp_path: Path) -> None:
    times = []
    for name, option in (("large", ["--one-directory"]), ("small", ["--per-directory", "500"])):
        made = make(tmp_path / name, "--files", str(MANY), *option)
        count, best_ns = run_under(made, tmp_path / "mount", SCAN).split()
        assert int(count) == MANY
        times.append(float(best_ns))
    large, small = times
    assert large < 4 * small, times  # what grew with the directory would be 100 times as much


@pytest.mark.soak
def test_a_large_index_is_made_in_little_memory(tmp_path: Path) -> None:
    """At 0.45 KB a file this would take 450 MB."""
    most_bytes = 256 << 20
    make_index = [sys.executable, ROOT / "tools" / "make_index.py", tmp_path / "made"]
    subprocess.run(
        [*make_index, "--files", "1000000", "--no-entries"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # each thread has a stack
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes)),
        check=True,
    )
    call("verify", tmp_path / "made")
