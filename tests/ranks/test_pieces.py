"""Random reads of a large file of another rank bring little more than they ask for, and nothing
comes twice."""

from __future__ import annotations

import random
from pathlib import Path

import inprocess
import pytest
from mpiexec import needs_ranks
from ranks import assert_all_ok, make_rank_stage, total

pytestmark = needs_ranks

MIB = 1 << 20
FILE_BYTES = 40 * MIB + 12345
COUNT = 100


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        ("store", 8192),
        pytest.param("store", 65536, marks=pytest.mark.soak),
        pytest.param("zstd", 8192, marks=pytest.mark.soak),
    ],
)
def test_bytes_by_need(tmp_path: Path, codec: str, size: int) -> None:
    source, dataset = tmp_path / "source", tmp_path / "dataset"
    source.mkdir()
    text = random.Random(1).randbytes(FILE_BYTES // 2 + 1).hex()
    (source / "large").write_bytes(text[:FILE_BYTES].encode())
    inprocess.call("prepare", "--quiet", source, dataset, "--codec", codec, "--partitions", "1")
    stored_bytes = sum(pack.stat().st_size for pack in dataset.glob("pack-*.fsp"))
    tasks = {
        "same_pieces": [size, COUNT], "note#1": ["random"], "whole": [], "note#2": ["all"],
        "preads": [50], "note#3": ["end"],
    }  # fmt: skip
    options = ("--cache-bytes", "128M", "--cache-policy", "lru")
    said = make_rank_stage(tmp_path).tasks(2, [dataset], tasks, options, source=str(source))
    assert_all_ok(said)
    at_random, in_all, at_end = (
        total(said, label, "node", "fetched_bytes") for label in ("random", "all", "end")
    )
    assert total(said, "end", "node", "shared_bytes") == 0
    if codec == "store":
        assert at_random <= 2 * size * COUNT
    else:  # whole blocks of 1 MiB are decoded
        assert at_random < stored_bytes
    assert 0.9 * stored_bytes < in_all == at_end <= stored_bytes
