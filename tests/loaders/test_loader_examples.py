"""The examples of docs/loaders.md run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def said(name: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_training_in_two_parts_has_the_losses_of_training_at_once() -> None:
    assert "in two parts the losses are the same" in said("train_images.py")


def test_lightning_trains_with_them() -> None:
    pytest.importorskip("lightning", reason="Lightning is not installed")
    assert "100.0% of the records are told apart" in said("train_lightning.py")


def test_two_ranks_train_to_the_end() -> None:
    lines = said("ddp.py").splitlines()
    assert sorted(line.partition(",")[0] for line in lines) == [
        f"epoch {epoch}: rank {rank}" for epoch in range(4) for rank in range(2)
    ]
