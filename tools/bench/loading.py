"""The rows of fanstore.torch's loader, compared with torch's own on one mount, with two workers.
They read records of 4 KiB, and JPEGs of about 128 KiB, which become tensors of their full size or
of a crop of 224 by 224."""

from __future__ import annotations

import importlib.util
import io
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from data import make_files
from peers import Place, prepare, serving
from readers import HERE
from results import OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, say

TORCHS = "torch"
RATIOS = {
    "loading-4k": ("records", 3.0),
    "loading-jpeg": ("images", 1.3),
    "loading-crop": ("crops", 0.95),
}
KEYS = list(RATIOS)
IMAGES, SIZE, QUALITY = 512, (800, 600), 94


def make_images(top: Path, count: int) -> None:
    """Makes JPEGs of about 128 KiB."""
    from PIL import Image

    source = random.Random(3)
    top.mkdir(parents=True)
    for number in range(count):
        coarse = Image.frombytes("RGB", (60, 45), source.randbytes(60 * 45 * 3))
        stream = io.BytesIO()
        image = coarse.resize(SIZE, Image.Resampling.BICUBIC)
        image.save(stream, "JPEG", quality=QUALITY)
        (top / f"{number:05}.jpg").write_bytes(stream.getvalue())


def measured(work: Path, key: str, settings: Settings) -> Result:
    """Measures and returns a row."""
    what, ratio = RATIOS[key]
    source, dataset = work / f"{key}-source", work / f"{key}-data"
    share = 4 if settings.quick else 1
    if what == "records":
        make_files(source, [Kind(what, 4 * KIB, 40 // share, 500)])
    else:
        make_images(source, IMAGES // share)
    prepare(source, dataset)
    with serving(key, Place(work, source, dataset), dataset) as peer:
        job = [sys.executable, HERE / "loading_job.py", peer.root, what, settings.repetitions]
        done = subprocess.run(
            [*peer.command, *map(str, job)], check=True, stdout=subprocess.PIPE, text=True
        )
    values = list(map(float, done.stdout.split()))
    times = {OURS: values[::2], TORCHS: values[1::2]}
    goals = [Goal(TORCHS, ratio)]
    return Result.of("loading", key, f"{what}, two workers", "sample", times, goals, processes=2)


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing."""
    missing = [name for name in ("torch", "PIL") if importlib.util.find_spec(name) is None]
    if missing:
        yield f"loaders: {missing[0]} is not installed"
        return
    say("loaders of torch")
    for key in wanted:
        yield measured(work, key, settings)
