"""The user's cache directory (XDG Base Directory Specification)."""

from __future__ import annotations

import os
from pathlib import Path

from fanstore.errors import FanstoreError


def cache_folder() -> Path:
    """Returns $XDG_CACHE_HOME/fanstore, else ~/.cache/fanstore; it may not exist. Raises
    FanstoreError if the user has no home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise FanstoreError("there is no home directory to keep files in: set XDG_CACHE_HOME")
    return Path(base) / "fanstore"
