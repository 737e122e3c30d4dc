"""Which directories a job of an analysis does not write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanstore.study.analyze.aside import covered


def test_directories_of_work_home_and_words_are_covered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("home", "work", "work/inner", "runs", "local")
    home, work, inner, runs, local = (tmp_path / name for name in names)
    for each in (home, work, inner, runs, local):
        each.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    command = (
        "python",
        f"--save={runs}/not-there/yet",
        f"{inner}/x",
        f"{local}/staged",
        "/usr/lib/x",
    )
    found = covered(command, [str(local)])
    assert found == sorted(map(str, (home, runs, work)))


def test_the_root_and_temporary_directories_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    monkeypatch.chdir("/tmp")
    assert covered(("python", "/tmp/x-that-is-not-there", "/y-that-is-not-there"), []) == []
