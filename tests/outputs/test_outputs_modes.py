"""Modes of outputs that their owner may not read, while FanStore reads them."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fanstore.outputs.files import files
from fanstore.outputs.model.entries import Changes


@pytest.fixture
def meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(tmp_path, monkeypatch)


class Meanwhile:
    """A file that its owner may not read, opened by one who looks away from that."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = os.fsencode(path / "output")
        os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o200))
        self._patch = monkeypatch

    def runs(self, work: Callable[[], object]) -> None:
        """Does `work` in a thread that starts in the moment in which the owner may read."""
        real_open = os.open
        thread = threading.Thread(target=work)
        refused: list[int] = []

        def open_as_anybody(name: bytes, flags: int) -> int:
            if not refused:
                refused.append(flags)
                raise PermissionError(13, "Permission denied")
            thread.start()
            thread.join(0.1)
            return real_open(name, flags)

        self._patch.setattr(files.os, "open", open_as_anybody)
        files.open_unasked(self.path).close()
        thread.join()


def test_a_mode_set_while_a_file_is_opened_unasked_stays(meanwhile: Meanwhile) -> None:
    meanwhile.runs(lambda: files.change(meanwhile.path, Changes(mode=0o400)))
    assert stat.S_IMODE(os.stat(meanwhile.path).st_mode) == 0o400


def test_the_mode_of_that_moment_is_not_seen(meanwhile: Meanwhile) -> None:
    seen: list[int] = []
    meanwhile.runs(lambda: seen.append(files.facts_of(meanwhile.path).st_mode))
    assert [stat.S_IMODE(mode) for mode in seen] == [0o200]
