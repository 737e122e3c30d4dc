"""Modes of outputs that their owner may not read, while FanStore reads them."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from fanstore.outputs import leases


def test_a_mode_set_while_a_file_is_opened_unasked_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.fsencode(tmp_path / "output")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o200))
    real_open = os.open
    changer = threading.Thread(target=leases.change_mode, args=(path, 0o400))
    refused: list[int] = []

    def open_as_anybody(name: bytes, flags: int) -> int:
        if not refused:
            refused.append(flags)
            raise PermissionError(13, "Permission denied")
        changer.start()  # the program's chmod comes just now
        changer.join(0.1)
        return real_open(name, flags)

    monkeypatch.setattr(leases.os, "open", open_as_anybody)
    os.close(leases.open_unasked(path))
    changer.join()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o400
