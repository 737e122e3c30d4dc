"""Starts watching the iterators of grain. csrc/preload/loading/python_hook.c runs this file in a
job's Python as soon as grain's module is loaded. The rules of start.py hold."""

from __future__ import annotations

import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
# Functions of python_hook.c.
wrapped: Any = globals()["wrapped"]
load_part: Any = globals()["load_part"]
calls: Any = globals()["send"], globals()["seal"]


def _start() -> None:
    """Wraps the iterators that read from data sources, so that each calls `pipelines` before each
    element."""
    try:
        module = sys.modules["grain._src.python.dataset.transformations.prefetch"]
        files, epochs = map(load_part, ("files.py", "epochs.py"))
        pipelines = load_part("grain_pipelines.py").Pipelines(files, epochs.number_in, teller)

        iterator: Any = module.PrefetchDatasetIterator
        iterator.__next__ = wrapped(iterator.__next__, pipelines.drawing, lambda *_: None, False)
        teller.began()
    except Exception as error:
        teller.failed(error)


teller = load_part("teller.py").Teller(os.path.dirname(_HERE), calls)
begun = True  # tells python_hook.c that later exceptions are the job's own
_start()
