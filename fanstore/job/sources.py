"""Opens the sources of a job: datasets, other directories, and addresses of objects. Those that are
no datasets are listed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from fanstore.buckets.address import is_address, parse
from fanstore.buckets.bucket import Bucket
from fanstore.buckets.clouds import open_bucket
from fanstore.config import Settings
from fanstore.dataset import Dataset, is_dataset, open_dataset
from fanstore.errors import UsageError
from fanstore.messages.figures import BucketFigures
from fanstore.node.prefix import default_prefix
from fanstore.staging.index import DatasetInfo


def open_source(path: str, settings: Settings, check: Callable[[], None]) -> tuple[Dataset, str]:
    """Opens the index of a dataset, or of the listing of any other source, for which it returns a
    note, too. check: called now and then, may raise."""
    if not _is_to_list(path):
        return open_dataset(path), ""
    from fanstore.prepare.listing import open_listing  # loads NumPy

    if not is_address(path):
        _refuse_for_listing(path, settings)
    opened = open_listing(path, lambda _: check(), settings.quiet)
    if opened[0].is_planned:
        _refuse_for_listing(path, settings)
    elif settings.in_place:
        raise UsageError(f"{path} is a dataset in a bucket: leave out --in-place")
    return opened


def default_mount(path: str) -> str:
    """Returns the mount prefix of a source for which the user named none. A listed directory is
    mounted over itself."""
    if is_address(path):
        address = parse(path)
        return default_prefix((address.prefix.rstrip("/") or address.bucket).rpartition("/")[2])
    path = os.path.abspath(path)
    return path if _is_to_list(path) else default_prefix(os.path.basename(os.path.realpath(path)))


def buckets_of(infos: Sequence[DatasetInfo]) -> dict[int, Bucket]:
    """Returns the buckets among the datasets of a job, by mount. Raises UsageError if the packages
    are missing on this node."""
    addresses = {n: info.source for n, info in enumerate(infos) if is_address(info.source)}
    return {mount: open_bucket(source) for mount, source in addresses.items()}


def bucket_figures(buckets: Collection[Bucket]) -> BucketFigures | None:
    """Returns the figures of all buckets of a job together; None if there are none."""
    total = sum((bucket.counts for bucket in buckets), Counter[str]())
    names = ("requests", "failed", "bytes")
    return BucketFigures(**{name: total[name] for name in names}) if buckets else None


def _is_to_list(path: str) -> bool:
    return is_address(path) or (os.path.isdir(path) and not is_dataset(path))


def _refuse_for_listing(path: str, settings: Settings) -> None:
    """Raises UsageError for settings that have no meaning for files that are read as they are."""
    given = "--in-place" if settings.in_place else ""
    given = "--stage full" if settings.stage == "full" else given
    if not is_address(path) and os.path.realpath(path) == "/":
        raise UsageError("all of / cannot be read as a dataset: name a directory in it")
    if given:
        kind = "an address of objects" if is_address(path) else "a directory"
        raise UsageError(
            f"{path} is {kind}, not a dataset: it is read while the job runs, and {given} "
            "needs a dataset; `fanstore prepare` makes one"
        )
