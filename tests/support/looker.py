"""Programs under the preload library that do one thing after the other, and what they ask for."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from output_fixtures import served  # noqa: F401
from output_service import Served

from fanstore._native import preload_path
from fanstore.outputs.model.wire import Request
from fanstore.outputs.service.listener import Listener

TOP = "/somewhere"
BEGUN_AT, CHANGER_AT = 1280, 1296  # in the header of the segment (csrc/format/names_format.h)

# Evaluates a line at a time, and answers with what came of it.
LOOKER = """
import json, os, sys
for line in sys.stdin:
    try:
        told = eval(line)
    except OSError as error:
        told = error.errno
    print(json.dumps(told), flush=True)
"""


class Looker:
    """A program under the preload library."""

    def __init__(self, directory: str) -> None:
        library = os.path.join(directory, "preload.so")  # LD_PRELOAD knows no names with spaces
        if not os.path.lexists(library):
            os.symlink(preload_path(), library)
        environment = {**os.environ, "LD_PRELOAD": library, "FANSTORE_JOB_DIR": directory}
        self.process = subprocess.Popen(
            [sys.executable, "-c", LOOKER], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def begin(self, expression: str) -> None:
        """Has it evaluate something."""
        assert self.process.stdin is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def told(self, expression: str) -> Any:
        """What comes of an expression; the errno where it fails."""
        assert self.process.stdout is not None
        self.begin(expression)
        return json.loads(self.process.stdout.readline())

    def size(self, name: str) -> Any:
        """The size of an output, or an errno."""
        return self.told(f"os.stat('{TOP}/{name}').st_size")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the daemon was asked for, in their order."""
    operations: list[int] = []
    run = Listener.run

    def noting(self: Listener, stream: Any, request: Request) -> Any:
        operations.append(request.op)
        return run(self, stream, request)

    monkeypatch.setattr(Listener, "run", noting)
    return operations


@pytest.fixture
def looker(asked: list[int], served: Served) -> Iterator[Looker]:  # noqa: F811
    made = Looker(served.path)
    yield made
    made.process.kill()
    made.process.communicate()


def header_words(directory: str, kind: str) -> memoryview:
    """The header of the names segment in a job's directory, as words: "Q" of 8 bytes, "I" of 4."""
    with open(Path(directory) / "names", "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast(kind)
