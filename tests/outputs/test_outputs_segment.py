"""Programs that look at outputs without asking: what they see, and when they ask after all."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from output_fixtures import dataset, served  # noqa: F401
from output_service import Served
from serving import wait_for

from fanstore._native import preload_path
from fanstore.outputs.model.wire import Op, Request
from fanstore.outputs.namespace import moving
from fanstore.outputs.service.listener import Listener

TOP = "/somewhere"
BEGUN_AT = 128  # in the header of the segment (csrc/format/names_format.h)

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


def test_looks_are_not_asked(served: Served, looker: Looker, asked: list[int]) -> None:  # noqa: F811
    """Neither at what is there or is not, nor to read it; what changes is seen at once."""
    served.client.write_file(b"a", b"four")
    served.client.ask(Op.MKDIR, b"made", mode=0o755)
    served.client.write_file(b"made/b", b"b")
    looks = [
        (f"os.stat('{TOP}/a').st_size", 4), (f"os.access('{TOP}/a', os.R_OK)", True),
        (f"os.path.exists('{TOP}/none')", False), (f"os.path.exists('{TOP}/a/b')", False),
        (f"open('{TOP}/a').read()", "four"), (f"os.listdir('{TOP}/made')", ["b"]),
        (f"os.path.exists('{TOP}/made/none/c')", False), (f"os.path.isdir('{TOP}/made')", True),
        (f"sorted(os.listdir('{TOP}'))", ["a", "d", "input", "made"]),
    ]  # fmt: skip
    before = len(asked)
    assert [looker.told(look) for look, _ in looks] == [told for _, told in looks]
    assert asked[before:] == []
    served.client.ask(Op.RENAME, b"made", b"other")
    assert looker.told(f"os.listdir('{TOP}/other')") == ["b"]
    assert looker.told(f"os.path.exists('{TOP}/made/b')") is False
    served.client.ask(Op.UNLINK, b"a")
    assert looker.told(f"os.path.exists('{TOP}/a')") is False


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Makes renames slow; those that have begun."""
    begun = []
    rename = moving.Moving.rename

    async def slow(self: moving.Moving, request: Request) -> Any:
        begun.append(request.path)
        await asyncio.sleep(0.5)
        return await rename(self, request)

    monkeypatch.setattr(moving.Moving, "rename", slow)
    return begun


def test_what_a_killed_program_asked_for_comes_first(
    renames: list[bytes],
    served: Served,  # noqa: F811
    looker: Looker,
) -> None:
    """Whoever has waited for its end sees its rename, though it had no answer yet."""
    served.client.write_file(b"old", b"x")
    assert looker.size("old") == 1
    killed = Looker(served.path)
    killed.begin(f"os.rename('{TOP}/old', '{TOP}/new')")
    wait_for(lambda: renames, "the rename")
    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate()
    assert looker.size("new") == 1
    assert looker.told(f"os.path.exists('{TOP}/old')") is False


def test_a_program_killed_before_it_asked(
    served: Served,  # noqa: F811
    looker: Looker,
    asked: list[int],
) -> None:
    """What it had announced never comes: looks are questions until that is certain."""
    served.client.write_file(b"a", b"four")
    assert looker.told(f"os.mkdir('{TOP}/made')") is None
    with open(Path(served.path) / "names", "r+b") as file:
        words = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("Q")
    assert words[BEGUN_AT // 8] == 1, "the mkdir"
    words[BEGUN_AT // 8] += 1
    before = len(asked)
    assert looker.size("a") == 4
    assert asked[before:] == [Op.LOOKUP]

    def unasked() -> bool:
        count = len(asked)
        return looker.size("a") == 4 and len(asked) == count

    wait_for(unasked, "looks without a question")
