"""A directory that appears whole or not at all, whatever signals come and whenever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fanstore import atomic as destination
from fanstore.atomic import Destination, Interrupted, make_whole

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def storm() -> None:
    for number in ENDING:
        signal.raise_signal(number)


def fill(made: Destination) -> None:
    (made.directory / "deep" / "er").mkdir(parents=True)
    (made.directory / "deep" / "er" / "file").write_bytes(b"x")


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("there", [False, True])
def test_signals_in_the_work(tmp_path: Path, number: signal.Signals, there: bool) -> None:
    if there:
        (tmp_path / "new").mkdir()

    def work(made: Destination) -> None:
        fill(made)
        signal.raise_signal(number)
        raise AssertionError

    with pytest.raises(Interrupted) as error:
        make_whole(tmp_path / "new", there, work)
    assert error.value.exit_code == 128 + number
    assert ("is as it was" if there else "was not made") in str(error.value)
    assert os.listdir(tmp_path) == ["new"] * there
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fails", [False, True])
def test_signals_while_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, fails: bool
) -> None:
    """The first signal comes with the cleaning up, which is done all the same."""
    real = destination.remove_tree

    def remove(top: Path) -> None:
        if when == "before":
            storm()
        real(top)
        storm()

    def work(made: Destination) -> None:
        fill(made)
        if fails:
            raise ValueError

    monkeypatch.setattr(destination, "remove_tree", remove)
    with pytest.raises(Interrupted, match="nothing is left behind"):
        make_whole(tmp_path / "new", False, work)
    assert os.listdir(tmp_path) == []


def test_a_signal_after_the_commit_changes_nothing(tmp_path: Path) -> None:
    def work(made: Destination) -> str:
        fill(made)
        made.commit()
        storm()
        return "done"

    assert make_whole(tmp_path / "new", False, work) == "done"
    assert os.listdir(tmp_path) == ["new"]


# The signal comes in a method whose exceptions Python drops, and then nothing else happens.
_DROPPED = """
import os
import signal
import time
from fanstore.atomic import Ended, ending_on_signals

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

try:
    with ending_on_signals():
        Last()
        time.sleep(60)
except Ended as ended:
    print("ended by", ended.number)
"""


def test_a_signal_counts_where_python_drops_exceptions() -> None:
    command = [sys.executable, "-c", _DROPPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("ended by 15\n", "")
