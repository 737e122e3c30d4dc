"""What fanstore.order.announce takes, and that outside a job it does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fanstore.order import Files, announce

WRONG: list[tuple[Any, dict[str, Any]]] = [
    (5, {}), (None, {}), ("one path", {}), (b"one path", {}), ([1], {}), ([None], {}),
    (["a\0b"], {}), (["a"], {"window": 0}), (["a"], {"window": "8"}), (["a"], {"window": True}),
    (["a"], {"name": 1}), ([0], {"of": ["a"]}), ([2], {"of": Files(["a", "b"])}),
    ([-1], {"of": Files(["a", "b"])}), ([0.5], {"of": Files(["a", "b"])}),
    ([2**80], {"of": Files(["a", "b"])}), (["a"], {"of": Files(["a", "b"])}),
]  # fmt: skip


@pytest.mark.parametrize(("order", "options"), WRONG)
def test_what_makes_no_sense_is_a_value_error(order: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        announce(order, **options)


@pytest.mark.parametrize("where", ["", "/", "/dev/null", "/nowhere/at/all"])
def test_outside_a_job_it_does_nothing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where:
        monkeypatch.setenv("FANSTORE_JOB_DIR", where)
    else:
        monkeypatch.delenv("FANSTORE_JOB_DIR", raising=False)
    before = os.listdir("/proc/self/fd")
    announce([])
    announce(["a", b"b", Path("c")], name="validation", window=3)
    announce(iter([1, 0, 1]), of=Files(path for path in ["a", "b"]))
    assert os.listdir("/proc/self/fd") == before


def test_it_needs_neither_numpy_nor_libraries() -> None:
    code = (
        "import sys, fanstore.order; fanstore.order.announce(['a'])\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(loaded & {'numpy', '_cffi_backend', 'click'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_files_are_counted() -> None:
    assert [len(Files(each)) for each in ([], ["a"], [Path("b"), "c"])] == [0, 1, 2]
