"""Makes the files that are read, once in each run, from a fixed seed."""

from __future__ import annotations

import importlib.util
import io
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rows import Kind

WORDS = 1024


def smaller(kind: Kind) -> Kind:
    """Returns a kind with a quarter of the files, for --quick."""
    if kind.files_each >= 4:
        return replace(kind, files_each=kind.files_each // 4)
    return replace(kind, folders=max(1, kind.folders // 4))


def make_files(top: Path, kinds: Iterable[Kind]) -> list[str]:
    """Makes the files of the kinds below `top`. Returns the reasons why kinds are missing."""
    skipped = []
    for kind in kinds:
        needs = {"jpeg": "PIL", "npy": "numpy"}.get(kind.content)
        if needs and importlib.util.find_spec(needs) is None:
            skipped.append(f"files {kind.name}: {needs} is not installed")
            continue
        make_kind(top / kind.name, kind)
    return skipped


def make_kind(top: Path, kind: Kind) -> None:
    """Makes the files of one kind, with content from a fixed seed."""
    source = random.Random(kind.name)
    content = CONTENT[kind.content](source, kind)
    for folder in range(kind.folders):
        path = top / f"folder-{folder:02}"
        path.mkdir(parents=True)
        for number in range(kind.files_each):
            (path / f"file-{number:05}{kind.suffix}").write_bytes(content())


def random_content(source: random.Random, kind: Kind) -> Callable[[], bytes]:
    return lambda: source.randbytes(kind.file_bytes)


def text_content(source: random.Random, kind: Kind) -> Callable[[], bytes]:
    """Returns a function that makes words of a small vocabulary, which lz4 halves. Each file begins
    at another position of one text."""
    vocabulary = [source.randbytes(source.randrange(6, 20)).hex() for _ in range(WORDS)]
    text = " ".join(source.choices(vocabulary, k=kind.file_bytes // 12)).encode()

    def content() -> bytes:
        start = source.randrange(len(text) - kind.file_bytes)
        return text[start : start + kind.file_bytes]

    return content


def jpeg_content(source: random.Random, kind: Kind) -> Callable[[], bytes]:
    """Returns a function that makes photographs like ImageNet's: 500 by 375 pixels, about 50 KB."""
    from PIL import Image

    def content() -> bytes:
        coarse = Image.frombytes("RGB", (25, 19), source.randbytes(25 * 19 * 3))
        image = coarse.resize((500, 375), Image.Resampling.BICUBIC)
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=92)
        return stream.getvalue()

    return content


def npy_content(source: random.Random, kind: Kind) -> Callable[[], bytes]:
    import numpy as np

    def content() -> bytes:
        stream = io.BytesIO()
        np.save(stream, np.frombuffer(source.randbytes(kind.file_bytes), np.float32))
        return stream.getvalue()

    return content


CONTENT = {
    "random": random_content, "text": text_content, "jpeg": jpeg_content, "npy": npy_content,
}  # fmt: skip
