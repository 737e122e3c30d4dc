"""A job that reads a directory as it is keeps a listing, and refuses some directories: it leaves
nothing behind, does nothing twice, and never hangs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from directories import describe, old, run, seen_plainly
from serving import READ_ALL, Stage, make_stage
from soak import sampled

from fanstore.dataset import INDEX_NAME, Dataset
from fanstore.prepare.listing import open_listing


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_what_is_refused_leaves_nothing_in_the_directory(stage: Stage) -> None:
    source = stage.source()
    for place in ("local", "a/b"):
        options = ("--local-dir", str(source / place))
        said = run(stage, source, "true", options=options, code=125).stderr
        assert "meets FanStore's own directory" in said
    assert {path.name for path in source.iterdir()} == set(stage.files)


def test_places_that_cannot_be_are_refused_before_a_listing_is_made(stage: Stage) -> None:
    source = stage.source()
    (source / "sub").mkdir()
    for other in (source, source / "sub"):
        run(stage, source, "true", options=(str(other),), code=125)
    run(stage, source, "true", options=("--output-dir", str(source / "sub")), code=125)
    assert not (stage.path / "cache").exists()


@pytest.mark.parametrize("name", sampled(["current", INDEX_NAME], [INDEX_NAME]))
def test_a_fifo_among_the_listings_is_no_listing(stage: Stage, name: str) -> None:
    source = stage.source()
    old(source)
    run(stage, source, "true")
    (file,) = (stage.path / "cache").rglob(name)
    file.unlink()
    os.mkfifo(file)
    done = run(stage, source, *describe(source))
    assert json.loads(done.stdout) == seen_plainly(source)
    assert "listed in" in done.stderr
    assert "listed by an earlier job" in run(stage, source, "true").stderr


@pytest.mark.soak
def test_copies_are_kept_for_the_newest_listing_only(stage: Stage) -> None:
    source, other = stage.source(), stage.source("other")
    read = ("python3", "-c", READ_ALL)
    for place in (source, other):
        old(place)
        run(stage, place, *read, options=("--keep-staged",))
    datasets = next(stage.local.glob(".fanstore-*/datasets"))
    of_other = {path.name for path in datasets.iterdir()}
    for round_number in range(3):
        (source / "f05").write_bytes(b"changed" * (round_number + 1))
        old(source)
        run(stage, source, *read, options=("--keep-staged",))
        kept = {path.name for path in datasets.iterdir()}
        assert len(kept) == 2
    assert len(kept & of_other) == 1


def test_a_kept_listing_is_opened_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(stage.path / "cache"))
    source = stage.source()
    old(source)
    open_listing(source, lambda _: None)[0].close()
    opened = []
    begin = Dataset.__init__

    def noted(*arguments: object) -> None:
        opened.append(arguments)
        begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Dataset, "__init__", noted)
    dataset, note = open_listing(source, lambda _: None)
    dataset.close()
    assert note.endswith("20 files, listed by an earlier job")
    assert len(opened) == 1


def test_a_quiet_job_says_only_what_is_left_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(stage.path / "cache"))
    source = stage.source()
    for expected in ("", f"{source}: left out: fifo (is a fifo)"):
        dataset, note = open_listing(source, lambda _: None, quiet=True)
        dataset.close()
        assert note == expected
        if not expected:
            os.mkfifo(source / "fifo")


# Waits until the share of the node is on its disk, then reads all files.
READ_WHEN_HERE = """
import os, subprocess, sys
os.chdir(sys.argv[1])
names = sorted(os.listdir("."))
subprocess.run([sys.executable, "-m", "fanstore", "warmup", ".", "--quiet"], check=True)
print([len(open(name, "rb").read()) for name in names])
"""


@pytest.mark.parametrize("size", [1 << 20, 9 << 20])
def test_a_file_with_several_names_is_read_once(stage: Stage, size: int) -> None:
    source = stage.source(files={"one": os.urandom(size)})
    for name in ("two", "three"):
        os.link(source / "one", source / name)
    old(source)
    command = (sys.executable, "-c", READ_WHEN_HERE, str(source))
    done = run(stage, source, *command, options=("--stage", "plan"))
    assert done.stdout == f"{[size] * 3}\n"
    assert f"{size >> 20}.0 MiB read later from the shared file system" in done.stderr
