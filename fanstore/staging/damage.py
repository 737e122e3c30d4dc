"""Finds the damaged files of a damaged pack: each is decoded and its checksum compared."""

from __future__ import annotations

import os
from collections.abc import Callable

from fanstore.dataset import Dataset
from fanstore.decoding import PackReader


def damaged_records(
    dataset: Dataset, pack: int, path: str | os.PathLike[str], check: Callable[[], None]
) -> list[int]:
    """Returns the record ids of the damaged files of a pack whose copy is at `path`; `check` may
    raise to give up."""
    damaged = []
    with PackReader(dataset, path) as reader:
        for record in dataset.records_of_pack(pack):
            check()
            if not reader.is_sound(record):
                damaged.append(record)
    return damaged
