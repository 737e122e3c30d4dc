"""Shared by the programs in this folder: `PROGRAM make DIR` fills a directory with inputs, `PROGRAM
use DIR` reads them, writes into DIR/out and prints its findings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path


def run(make: Callable[[Path], object], use: Callable[[Path], object]) -> None:
    """Runs the function that the command line names."""
    action, directory = sys.argv[1], Path(sys.argv[2])
    if action == "use":
        (directory / "out").mkdir(exist_ok=True)
        use(directory)
    else:
        make(directory)
