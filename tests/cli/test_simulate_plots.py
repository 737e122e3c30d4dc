"""fanstore study simulate --plot: what is drawn, and what is refused before a simulation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from inprocess import call
from small_disk import small_disk

from fanstore.study.simulate import engine

ONE = ["study", "simulate", "nopfs-1", "--epochs=1"]


def drawn(folder: Path, *options: str) -> str:
    """Returns the source of a picture, which has all words as text."""
    pytest.importorskip("matplotlib")
    call(*ONE, *options, "--plot", folder / "found.svg")
    return (folder / "found.svg").read_text()


@pytest.mark.soak
def test_bars_name_policies_and_sources(tmp_path: Path) -> None:
    found = drawn(tmp_path)
    for text in ("nopfs-1", "frequency-partition", "remote ram", "shared", "lower bound"):
        assert f">{text}" in found, text
    assert "loaded before the job" in found  # by lbann-preload
    assert "loaded before the job" not in drawn(tmp_path, "--policy", "nopfs")


def test_a_sweep_of_one_name_is_lines_and_equal_policies_share_one(tmp_path: Path) -> None:
    policies = ["--policy", "perfect", "--policy", "staging-buffer", "--policy", "naive"]
    found = drawn(tmp_path, "--sweep", "nodes=2,4", "--sweep", "batch=32", *policies)
    assert ">perfect,<" in found and ">staging-buffer<" in found and ">naive<" in found
    assert ">nodes<" in found and ">batch<" not in found


def test_a_sweep_of_two_names_is_a_map_for_each_policy(tmp_path: Path) -> None:
    policies = ["--policy", "lbann-dynamic", "--policy", "parallel-staging"]
    swept = ["--sweep", "nodes=2,4", "--sweep", "ram=1MB,1GB", "--sweep", "disk=0B"]
    found = drawn(tmp_path, *swept, *policies)
    assert found.count(">cannot<") == 2  # of lbann-dynamic, with 1 MB
    assert found.count("% of data<") == 2  # of parallel-staging, with 1 MB
    assert found.count("% shared<") == 6


def test_png_is_drawn_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    call(*ONE, "--policy", "nopfs", "--plot", tmp_path / "found.png")
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


def test_a_full_disk_leaves_the_picture_that_was_there(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "8k"):
        (disk / "found.png").write_bytes(b"earlier")
        told = call(*ONE, "--policy", "nopfs", "--plot", disk / "found.png", code=125).stderr
        assert f"{disk}/found.png: No space left on device" in told
        assert {path.name: path.read_bytes() for path in disk.iterdir()} == {
            "found.png": b"earlier"
        }


def test_what_cannot_be_drawn_is_refused_before_the_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("simulated")

    monkeypatch.setattr(engine, "simulate", never)
    swept = ["--sweep", "nodes=2,4", "--sweep", "ram=1MB,1GB", "--sweep", "batch=1,2"]
    for options, file, said in (
        ([], "found.pdf", "allowed are names that end in .svg and .png"),
        ([], "no/found.svg", "is no folder that can be written to"),
        (swept, "found.svg", "nodes, ram, batch are swept; allowed are two names"),
    ):
        assert said in call(*ONE, *options, "--plot", tmp_path / file, code=2).stderr
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    missing = call(*ONE, "--plot", tmp_path / "found.svg", code=2).stderr
    assert "--plot needs matplotlib, which is not installed" in missing
    assert "pip install 'fanstore-fs[plots]'" in missing
    assert not list(tmp_path.iterdir())
