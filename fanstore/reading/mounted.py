"""Whether this process sees a dataset in a mount: then the job's node has its files, from wherever
they are, and keeps them."""

from __future__ import annotations

import os

from fanstore.dataset import Dataset, device_number

_PREFIX = "FANSTORE_MOUNT_PREFIX"


def mount_of(index: Dataset) -> str | None:
    """Returns the prefix below which a dataset is mounted in this process, None where it is not, or
    in a program that FanStore could not get into."""
    prefixes = [
        value
        for name, value in os.environ.items()
        if name == _PREFIX or name.startswith(_PREFIX + "_")
    ]
    device = device_number(index.dataset_id)
    return next((each for each in sorted(prefixes) if _device_of(each) == device), None)


def _device_of(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return 0
