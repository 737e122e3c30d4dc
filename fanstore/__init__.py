"""FanStore: a transient distributed file system for deep-learning I/O.

import fanstore
with fanstore.Dataset("imagenet.fan") as dataset:
    image = dataset["train/n01440764/n01440764_18.JPEG"]
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing the name from typing would take longer than all the rest here
if TYPE_CHECKING:
    from typing import Any

    from fanstore.errors import DatasetDamaged, FanstoreError
    from fanstore.reading.mapping import Dataset

__version__ = "0.1.0"
__all__ = ["Dataset", "DatasetDamaged", "FanstoreError"]
_HOMES = {
    "Dataset": "fanstore.reading.mapping",
    "DatasetDamaged": "fanstore.errors",
    "FanstoreError": "fanstore.errors",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that the command line starts without these
    modules."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
