"""Opens what the commands that show a dataset are given."""

from __future__ import annotations

from fanstore.buckets.address import is_address
from fanstore.dataset import Dataset, open_dataset


def open_shown(path: str) -> Dataset:
    """Opens a dataset, or the listing of the objects at an address. Raises UsageError."""
    if not is_address(path):
        return open_dataset(path)
    from fanstore.prepare.listing import open_listing

    return open_listing(path, lambda _: None)[0]


def damage(dataset: Dataset) -> list[str]:
    """Returns what a glance finds wrong with a dataset whose packs are at hand."""
    from fanstore.verify import glance

    return [] if dataset.source else glance(dataset)
