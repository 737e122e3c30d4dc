"""One job of coordinate.py: prints when its epoch began and ended, in monotonic nanoseconds, and
how many samples it got.

usage: coordinate_job.py DIRECTORY shared|alone REPETITION NUMBER"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

from fanstore.coordinate import join

JOBS, BATCH_SIZE, SIDE = 4, 8, 224
TOP, KIND, REPETITION, NUMBER = sys.argv[1:5]
FILES = sorted(Path(TOP).rglob("*.jpg"))
BATCH_BYTES = BATCH_SIZE * SIDE * SIDE * 3


def prepare(epoch: int, batch: int) -> list[np.ndarray]:
    """Decodes and scales the images of a batch."""
    files = FILES[batch * BATCH_SIZE : (batch + 1) * BATCH_SIZE]
    return [np.stack([np.asarray(Image.open(file).resize((SIDE, SIDE))) for file in files])]


def nothing(epoch: int, batch: int) -> list[bytes]:
    """Prepares an empty batch, which makes all jobs begin together."""
    return [b"\0"]


IS_SHARED = KIND == "shared"
NAME = f"{KIND}-{REPETITION}" + ("" if IS_SHARED else f"-{NUMBER}")
BATCHES = len(FILES) // BATCH_SIZE
with join(
    nothing, jobs=JOBS, batches=1, batch_bytes=64, name=f"together-{KIND}-{REPETITION}"
) as together:
    for _ in together.epoch():
        pass
    begun = time.monotonic_ns()
    with join(
        prepare, jobs=JOBS if IS_SHARED else 1, batches=BATCHES, batch_bytes=BATCH_BYTES, name=NAME
    ) as member:
        samples = sum(len(images) for _, _, (images,) in member.epoch())
    print(begun, time.monotonic_ns(), samples)
