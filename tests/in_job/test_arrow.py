"""The ranges that a job announces for samples in Arrow files have the bytes of these samples."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanstore.in_job import arrow, files

data = pytest.importorskip("torch.utils.data")
datasets = pytest.importorskip("datasets")
pyarrow = pytest.importorskip("pyarrow")

ROWS = 3000  # of which 1,000 are in a batch of the file


def made(place: Path, **columns: Any) -> Any:
    """A dataset of two files, in which each row of a column has more than 32 bytes."""
    datasets.Dataset.from_dict(columns).save_to_disk(place, num_shards=2)
    return datasets.load_from_disk(place)


def texts() -> list[str]:
    return [f"{n}: " + "x" * (35 + n * 7919 % 301) for n in range(ROWS)]


def found(dataset: Any) -> list[set[bytes]]:
    """The bytes of each sample, by the announced ranges."""
    parts = arrow.ranges_of(data, dataset, files, len)
    if parts is None:
        return []
    paths = b"".join(parts["paths"]).split(b"\0")
    content = [Path(os.fsdecode(path)).read_bytes() for path in paths[:-1]]
    rows = defaultdict(set)
    for file, first, count, begin, end in np.frombuffer(b"".join(parts["ranges"]), "q").reshape(
        -1, 5
    ):
        size = (end - begin) // count
        for n in range(count):
            rows[int(first + n)].add(content[file][begin + n * size : begin + (n + 1) * size])
    chosen = np.frombuffer(b"".join(parts.get("chosen", [])), "q").tolist()
    return [rows[row] for row in chosen or range(len(dataset))]


def test_texts_and_lists(tmp_path: Path) -> None:
    ints = [list(range(n % 50, 60)) for n in range(ROWS)]
    few = [n % 10 for n in range(ROWS)]  # 8 bytes each: 1,000 are in memory at once
    dataset = made(tmp_path / "a", text=texts(), ints=ints, few=few)
    expected = [
        {text.encode(), np.array(row, "q").tobytes()}
        for text, row in zip(texts(), ints, strict=True)
    ]
    assert found(dataset) == expected
    assert found(dataset.with_format("numpy", columns=["text"])) == [
        {text.encode()} for text in texts()
    ]


def test_rows_of_one_size(tmp_path: Path) -> None:
    rows = np.arange(ROWS * 33, dtype="i4").reshape(ROWS, 33)
    kind = datasets.Features({"a": datasets.Sequence(datasets.Value("int32"), length=33)})
    whole = datasets.Dataset.from_dict({"a": list(rows)}, features=kind)
    whole.save_to_disk(tmp_path / "a", num_shards=2)
    dataset = datasets.load_from_disk(tmp_path / "a")
    assert found(dataset) == [{row.tobytes()} for row in rows]
    parts = arrow.ranges_of(data, dataset, files, len)
    assert parts is not None and len(b"".join(parts["ranges"])) == 5 * 8 * 4  # one a batch


def test_values_in_members(tmp_path: Path) -> None:
    images = [{"bytes": os.urandom(20 + n % 40), "path": None} for n in range(ROWS)]
    deep = [[[n, n + 1, n + 2], [n] * 5] for n in range(ROWS)]
    arrays = np.arange(ROWS * 26, dtype="f4").reshape(ROWS, 2, 13)
    features = datasets.Features(
        {
            "image": {"bytes": datasets.Value("large_binary"), "path": datasets.Value("string")},
            "deep": datasets.Sequence(datasets.Sequence(datasets.Value("int64"))),
            "array": datasets.Array2D((2, 13), "float32"),
        }
    )
    columns = {"image": images, "deep": deep, "array": list(arrays)}
    whole = datasets.Dataset.from_dict(columns, features=features)
    whole.save_to_disk(tmp_path / "a", num_shards=2)
    assert found(datasets.load_from_disk(tmp_path / "a")) == [
        {image["bytes"], np.array([n, n + 1, n + 2, *[n] * 5], "q").tobytes(), arrays[n].tobytes()}
        for n, image in enumerate(images)
    ]


def test_columns_that_are_made_of_others(tmp_path: Path) -> None:
    """Of these some lie in the files, and others in the memory of the process."""
    content = [os.urandom(350 + n % 40) for n in range(ROWS)]
    ints = [list(range(n % 50, 60)) for n in range(ROWS)]
    dataset = made(tmp_path / "a", image=content, ints=ints, none=[[]] * ROWS, text=texts())
    part = dataset.select(range(500, 2500)).cast_column("image", datasets.Image(decode=False))
    rows = [{content[n], text.encode()} for n, text in enumerate(texts())][500:2500]
    assert found(part) == [
        row | {np.array(ints[500 + n], "q").tobytes()} for n, row in enumerate(rows)
    ]
    schema = part.data.schema
    shorter = pyarrow.field("ints", pyarrow.list_(pyarrow.int32()))
    part._data = part.data.cast(schema.set(schema.get_field_index("ints"), shorter))
    assert found(part) == rows


def test_selections_and_datasets_around_it(tmp_path: Path) -> None:
    class Wrapper(data.Dataset):  # type: ignore[misc]
        def __init__(self, table: Any) -> None:
            self.table = table

        def __len__(self) -> int:
            return len(self.table)

    dataset = made(tmp_path / "a", text=texts())
    whole = [{text.encode()} for text in texts()]
    part = dataset.select(range(100, 2900)).shuffle(seed=3)
    rows = [{each["text"].encode()} for each in part]
    assert found(part) == rows
    assert found(dataset.filter(lambda row: len(row["text"]) > 200)) == [
        each for each in whole if len(next(iter(each))) > 200
    ]
    some = [5, 2000, 7]
    assert found(data.Subset(part, some)) == [rows[n] for n in some]
    assert found(Wrapper(dataset)) == whole
    assert found(Wrapper(data.Subset(dataset, some))) == []
    both = datasets.concatenate_datasets([dataset, dataset.select([1, 2])])
    assert found(both)[:ROWS] == whole


def test_code_of_the_job_does_not_run(tmp_path: Path) -> None:
    class Indices:
        def __len__(self) -> int:
            raise AssertionError

        __getitem__ = __iter__ = __array__ = __len__

    dataset = made(tmp_path / "a", text=texts())
    assert found(data.Subset(dataset, Indices())) == []
    assert found(data.Subset(data.TensorDataset(), Indices())) == []


def test_what_lies_in_no_files(tmp_path: Path) -> None:
    assert found(datasets.Dataset.from_dict({"text": texts()})) == []
    assert found(data.TensorDataset()) == []


def test_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_TIME_MAX_S", -1)
    assert found(made(tmp_path / "a", text=texts())) == []
