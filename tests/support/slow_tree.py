"""The mark of tests that need a slow file system (tools/slow)."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

_CAP_SYS_ADMIN = 21


def _problem() -> str:
    """Returns why none can be mounted, or an empty text."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no /dev/fuse here"
    if os.geteuid() != 0:
        return "" if shutil.which("fusermount3") else "no fusermount3 here"
    found = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    can_mount = found is not None and int(found[1], 16) >> _CAP_SYS_ADMIN & 1
    return "" if can_mount else "this root may not mount"


needs_fuse = pytest.mark.skipif(bool(_problem()), reason=_problem())
