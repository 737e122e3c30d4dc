"""Which files samples are, by the lists that a dataset has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fanstore.in_job import files

data = pytest.importorskip("torch.utils.data")

_NAMES = [f"f{number}" for number in range(12)]


class Sample(NamedTuple):
    path: str
    label: int


class Made(data.Dataset):  # type: ignore[misc]
    """A dataset of twelve samples with some attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 12


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in [*_NAMES, *(f"m{name}" for name in _NAMES)]:
        (tmp_path / name).touch()
    monkeypatch.setattr(files, "_MAJOR", os.major(os.stat(tmp_path).st_dev))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path)


def found(dataset: Any) -> list[str]:
    answer = files.paths_of(data, dataset, len, 0)
    unknown = files.columns_of(data, dataset, lambda _: None, len(dataset))
    assert answer is None or unknown or isinstance(dataset, data.ConcatDataset)
    if answer is None:
        return []
    width, pieces = answer
    text = os.fsdecode(b"".join(pieces))
    assert text.endswith("\0")
    paths = text[:-1].split("\0")
    assert len(paths) == width * len(dataset)
    return paths


def test_lists_of_paths_in_their_usual_forms(root: str) -> None:
    full = [os.path.join(root, name) for name in _NAMES]
    for attributes in (
        {"samples": [(path, 1) for path in full]},
        {"imgs": [[3, path] for path in full]},
        {"samples": [Sample(path, 1) for path in full]},
        {"files": full},
        {"files": tuple(full), "again": list(full)},
        {"files": [Path(path) for path in full]},
        {"files": [os.fsencode(path) for path in full]},
        {"files": np.array(full)},
        {"files": np.array(full, dtype=object)},
        {"files": np.array(full, dtype="S")},
        {"files": list(_NAMES)},
        {"names": _NAMES, "image_dir": root, "other": "/nowhere", "targets": list(range(12))},
        {"names": _NAMES, "root": Path(root)},
    ):
        assert found(Made(**attributes)) == full, attributes


def test_samples_of_several_files(root: str) -> None:
    pairs = [(name, f"m{name}", 5) for name in _NAMES]
    expected = [os.path.join(root, name) for pair in pairs for name in pair[:2]]
    assert found(Made(pairs=pairs, root=root)) == expected
    masks = [f"m{name}" for name in _NAMES]
    assert found(Made(images=_NAMES, masks=masks, root=root)) == expected


def test_datasets_of_other_datasets(root: str) -> None:
    inner = Made(files=_NAMES)
    full = [os.path.join(root, name) for name in _NAMES]
    assert found(Made(inner=inner)) == full
    subset = data.Subset(inner, [4, 2, 7])
    assert found(subset) == [full[4], full[2], full[7]]
    assert found(data.Subset(subset, [1])) == [full[2]]
    assert found(data.Subset(subset, np.array([2, 0]))) == [full[7], full[4]]
    assert found(data.ConcatDataset([inner, subset])) == [*full, full[4], full[2], full[7]]


def test_what_is_no_list_of_files_of_ours(root: str) -> None:
    for attributes in (
        {},
        {"files": _NAMES[:-1]},
        {"files": ["/etc"] * 12, "more": ["gone"] * 12, "numbers": list(range(12))},
        {"files": [*_NAMES[:-1], "gone"]},
        {"files": [None, *_NAMES[1:]], "odd": [()] * 12, "odder": [{}] * 12},
        {"files": "f0f1f2f3f4f5"},
        {"files": ["with\0nul"] * 12},
    ):
        assert found(Made(**attributes)) == [], attributes
    assert found(data.ConcatDataset([Made(files=_NAMES), Made()])) == []


def test_a_dataset_that_holds_itself(root: str) -> None:
    dataset = Made()
    dataset.itself = dataset
    assert found(dataset) == []
