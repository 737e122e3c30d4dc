"""The code that watches tf.data, without TensorFlow."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fanstore.in_job import epochs, files, rows, shards, streams, teller
from fanstore.in_job import tensorflow_pipelines as pipelines

_ITERATORS = "tensorflow.python.data.ops.iterator_ops"
_PARTS = {
    "epochs.py": epochs, "files.py": files, "rows.py": rows, "streams.py": streams,
    "shards.py": shards, "teller.py": teller, "tensorflow_pipelines.py": pipelines,
}  # fmt: skip


def test_a_tensorflow_without_the_expected_parts_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Iterators are made as ever, and the daemon hears why they are not watched, once."""
    said: list[bytes] = []
    module: Any = ModuleType(_ITERATORS)
    module.context = SimpleNamespace(executing_eagerly=lambda: True)
    module.OwnedIterator = type("OwnedIterator", (), {"__init__": lambda self: None})
    monkeypatch.setitem(sys.modules, _ITERATORS, module)
    start = Path(streams.__file__).with_name("start.py")

    def wrapped(method: Any, before: Any, after: Any, always: bool) -> Any:
        def call(*arguments: Any) -> Any:
            result = method(*arguments)
            after(result, *arguments)
            return result

        return call

    def load_part(name: str) -> Any:
        if name in _PARTS:
            return _PARTS[name]
        return SimpleNamespace(**runpy.run_path(str(start.with_name(name)), functions))

    functions = {
        "wrapped": wrapped, "load_part": load_part, "last_opened": lambda: 0,
        "send": lambda text, fds: said.append(text), "seal": lambda fd: 0,
        "asked": "tensorflow_start.py",
    }  # fmt: skip
    runpy.run_path(str(start), functions)
    for _ in range(2):
        module.OwnedIterator()
    assert said[0] == b"{}" and len(said) == 2 and b"KeyError" in said[1]


class Cached:
    """Like a dataset of tf.data that caches the files that it reads."""

    def __init__(self, stored: Path | None = None) -> None:
        text = str(stored or "").encode()
        self._filename = SimpleNamespace(numpy=lambda: text)


def is_announced(watched: pipelines.Pipelines, dataset: Cached) -> bool:
    return watched._of_cache(dataset, (None, None, [], True)) is not None


def test_files_behind_a_cache_are_announced_until_they_are_cached(tmp_path: Path) -> None:
    """A job may look at the first batch before it trains; TensorFlow drops such a cache."""
    context = SimpleNamespace(executing_eagerly=lambda: True)
    watched = pipelines.Pipelines(SimpleNamespace(context=context), files.is_ours, None)
    in_memory, stored = Cached(), Cached(tmp_path / "cache")
    assert [is_announced(watched, in_memory) for _ in range(4)] == [True, True, True, False]
    assert [is_announced(watched, stored) for _ in range(4)] == [True] * 4
    (tmp_path / "cache.index").touch()
    assert not is_announced(watched, stored)
