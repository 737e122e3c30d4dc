"""Jobs with pipelines of tf.data: what they will read is known, and they notice nothing."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path

import pytest
from serving import Stage, make_stage

pytest.importorskip("tensorflow")

_JOB = str(Path(__file__).with_name("tensorflow_job.py"))
_FILES = 1500
_KNOWN = (
    "shuffled", "reshuffled_never", "list_files", "sequential", "labelled", "repeated", "sharded",
    "global_seed", "seed_of_all", "keras_directory", "keras_fit", "odd",
    "cached", "cached_paths", "with_paths", "records", "generated",
)  # fmt: skip


def png(number: int) -> bytes:
    """An image of 8 by 8 pixels, another for each number."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checked)

    rows = b"".join(b"\0" + struct.pack(">II", number, number * row) for row in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = make_stage(tmp_path_factory.mktemp("tensorflow"))
    stage.dataset(stage.source(files={f"c{n % 7}/{n:04}.png": png(n) for n in range(_FILES)}))
    return stage


def run_job(stage: Stage, name: str, order: str = "auto") -> tuple[object, str]:
    """Runs a job in a mount; returns what it says, and what FanStore says."""
    mount = str(stage.path / "plain")  # where the files are, too
    where = ("--dataset", str(stage.path / "data"), "--mount", mount)
    env = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = stage.call(
        "run", *where, "--", sys.executable, _JOB, mount, name, FANSTORE_ORDER=order, **env
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr  # Keras prints lines of its own


def share(said: str) -> float:
    return float(said.partition("known for ")[2].partition(" %")[0] or 0)


@pytest.mark.parametrize("name", _KNOWN)
def test_opens_are_known_and_nothing_changes(stage: Stage, name: str) -> None:
    watched, said = run_job(stage, name)
    if name != "odd":
        assert share(said) >= 98 and "(tf.data)" in said, said
        assert "wrong" not in said
    alone, said = run_job(stage, name, order="off")
    assert "order of reading" not in said
    assert watched == alone


@pytest.mark.parametrize("name", ["unseeded", "in_a_graph"])
def test_what_cannot_be_known_is_left_alone(stage: Stage, name: str) -> None:
    watched, said = run_job(stage, name)
    assert "tf.data" not in said and "not known" not in said, said
    assert watched["modules"] == []


def test_torch_alone_is_heard_where_that_is_said(stage: Stage) -> None:
    _, said = run_job(stage, "shuffled", order="torch")
    assert "order of reading not known: --order torch follows only torch's loaders" in said
