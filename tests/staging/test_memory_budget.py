"""What a job takes of the memory where its local directory is in memory."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Stage, make_stage

from fanstore.staging.local_dir import fs_type

SHM = "/dev/shm"
FILES = {f"f{n:02}": os.urandom(1 << 20) for n in range(24)}
BUDGET = ("--memory-bytes", "40M", "--cache-bytes", "12M")  # about 13 MiB for the 24 of the dataset


@pytest.fixture
def in_memory() -> Iterator[str]:
    """A local directory in memory."""
    if not os.path.isdir(SHM) or fs_type(SHM) != "tmpfs" or not os.access(SHM, os.W_OK):
        pytest.skip(f"{SHM} is no tmpfs that may be written")
    path = tempfile.mkdtemp(prefix="test-budget-", dir=SHM)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.mark.soak
def test_more_than_the_memory_allows_is_not_staged_in_it(stage: Stage, in_memory: str) -> None:
    dataset = str(stage.dataset(stage.source(files=FILES)))
    where = ("--dataset", dataset, "--mount", str(stage.mount), "--local-dir", in_memory, *BUDGET)
    refused = stage.call("run", *where, "--stage", "full", "--", "true", code=125)
    assert re.search(r"--memory-bytes leaves 1[123]\.\d MiB", refused.stderr)
    assert "does not fit" in stage.call(
        "doctor", "--dataset", dataset, FANSTORE_LOCAL_DIR=in_memory,
        FANSTORE_MEMORY_BYTES="40M", FANSTORE_CACHE_BYTES="12M",
    ).stdout  # fmt: skip
    stage.call("start", *where)
    try:
        count = 'cat "$@" | wc -c'
        files = [str(stage.mount / name) for name in FILES]
        command = ("sh", "-c", count, "-", *files, *files)
        read = stage.call("exec", "--local-dir", in_memory, "--", *command).stdout
        assert int(read) == 2 * sum(map(len, FILES.values()))
        found = json.loads(stage.call("status", "--json", "--local-dir", in_memory).stdout)
        said = stage.call("status", "--local-dir", in_memory).stdout
    finally:
        stage.call("stop", "--local-dir", in_memory)
    memory = found["memory"]
    assert memory["limit_bytes"] == 40 << 20
    assert 12 << 20 < memory["cache_bytes"] <= 25 << 20  # with what comes on top
    assert 8 << 20 < memory["staged_bytes"] <= 16 << 20
    taken = memory["cache_bytes"] + memory["staged_bytes"] + memory["tables_bytes"]
    assert taken <= memory["limit_bytes"]
    assert re.search(r"memory: block cache .*, staged .*, tables .*; 40.0 MiB may be taken", said)


def test_what_is_staged_on_a_disk_takes_no_memory(stage: Stage) -> None:
    if fs_type(str(stage.path)) == "tmpfs":
        pytest.skip("the directory for tests is in memory")
    dataset = str(stage.dataset())
    stage.call("start", "--dataset", dataset, "--mount", str(stage.mount))
    try:
        memory = json.loads(stage.call("status", "--json").stdout)["memory"]
    finally:
        stage.call("stop")
    assert (memory["staged_bytes"], memory["cache_bytes"]) == (0, 0)
    assert 0 < memory["tables_bytes"] < memory["limit_bytes"]
