"""Datasets and comparisons of the tests of loaders."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import inprocess
import numpy as np
import torch


class Mixed(torch.utils.data.Dataset):
    """Samples of many kinds, with random numbers of all generators."""

    def __init__(self, samples: int = 43) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "image": torch.rand(3, 17, 9), "array": np.random.rand(5).astype("f4"),
            "number": index, "real": random.random(), "text": str(index), "empty": torch.zeros(0),
            "pair": (torch.tensor(index), [torch.full((2,), index, dtype=torch.bfloat16)]),
            "flag": torch.tensor([index % 2 == 0]), "complex": torch.ones(2, dtype=torch.cfloat),
        }  # fmt: skip


def assert_same(one: Any, other: Any) -> None:
    """Compares two batches: types, dtypes, shapes, strides, and each bit."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.layout) == (other.dtype, other.shape, other.layout)
        if one.layout is torch.strided:
            assert one.stride() == other.stride()
            one, other = one.contiguous(), other.contiguous()
            assert one.view(-1).view(torch.uint8).equal(other.view(-1).view(torch.uint8))
        else:
            assert torch.equal(one.to_dense(), other.to_dense())
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


def packed(source: Path) -> Path:
    """Packs a directory; returns the dataset, which lies beside it."""
    target = source.with_suffix(".fan")
    inprocess.call("prepare", "--quiet", source, target)
    return target


def records(top: Path, count: int = 30, size: int = 512) -> Path:
    """Makes files of one size and random content in folders."""
    source = random.Random(7)
    for number in range(count):
        path = top / f"folder-{number % 3}" / f"{number:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.randbytes(size))
    return top
