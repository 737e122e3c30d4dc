"""Which output directory a job may have: told before anything of it starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from serving import LIMIT_S, Stage, make_stage

from fanstore._native import ffi
from fanstore.outputs.files.location import folders_of, problem_of, refusal_of
from fanstore.outputs.files.placing import back_up
from fanstore.outputs.tree.passes import StageOut
from fanstore.outputs.tree.placed import Header, Placed
from fanstore.outputs.tree.target import Target


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def dataset(stage: Stage) -> Path:
    return stage.dataset(stage.source(files={"input": b"input", "d/inside": b"inside"}))


def options(out: Path) -> tuple[str, ...]:
    return ("--output-dir", str(out))


def test_nothing_starts_when_the_output_directory_cannot_be(stage: Stage, dataset: Path) -> None:
    (stage.path / "file").write_text("")
    for path, why in {
        stage.path / "file": "is not a directory",
        stage.path / "no/such": "does not exist",
        stage.mount: "lies in the mount prefix",
        stage.mount / "inside": "cannot be made",
        stage.path / ".fanstore-me": "lies in FanStore's own directory",
    }.items():
        done = stage.run(dataset, "touch", str(stage.path / "ran"), options=options(path), code=125)
        assert why in done.stderr and str(path) in done.stderr
        assert stage.leftovers() == []
    assert not (stage.path / "ran").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_an_output_directory_that_is_not_writable(stage: Stage, dataset: Path) -> None:
    (stage.path / "closed").mkdir(0o555)
    done = stage.run(dataset, "true", options=options(stage.path / "closed"), code=125)
    assert "is not writable" in done.stderr


def test_the_default_under_a_mount_is_refused_at_the_start(stage: Stage, dataset: Path) -> None:
    """A mount over the dataset's own path, the job started in it or below, by whatever name."""
    original, link = stage.path / "plain", stage.path / "link"
    link.symlink_to(original / "d")
    pairs = [(stage.mount, dataset), (original, dataset)]
    where = [word for at, path in pairs for word in ("--dataset", str(path), "--mount", str(at))]
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", "run", *where, "--", "touch", str(stage.path / "ran")],
        env={**stage.env, "PWD": str(link)}, cwd=link,
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 125
    assert f"output directory {original}/d/fanstore-output (default): " in done.stderr
    assert f"lies in the mount prefix {original}; name one elsewhere" in done.stderr
    assert not (stage.path / "ran").exists()
    assert sorted(os.listdir(original)) == ["d", "input"]
    assert stage.leftovers() == []


def test_output_directories_that_lie_in_a_mount(tmp_path: Path) -> None:
    """Through a link, or as a mount that is bound elsewhere; a link that leads out does not."""
    for name in ("data/d", "data-2", "bound", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/d")
    (tmp_path / "data/away").symlink_to(tmp_path / "elsewhere")
    prefixes = [str(tmp_path / "not-there"), str(tmp_path / "data")]
    for name in ("data", "data/d", "data/new/out", "link", "link/out", "not-there/out"):
        assert "lies in the mount prefix" in refusal_of(str(tmp_path / name), prefixes), name
    for name in ("out", "data-2", "data/away/out", "data/../out", "not-there-2"):
        assert refusal_of(str(tmp_path / name), prefixes) == "", name
    bind = ["mount", "--bind", str(tmp_path / "data"), str(tmp_path / "bound")]
    if os.getuid() == 0 and not subprocess.run(bind, capture_output=True).returncode:
        try:
            assert refusal_of(str(tmp_path / "bound/d/out"), prefixes) != ""
        finally:
            subprocess.run(["umount", str(tmp_path / "bound")], check=True)


def test_folders_of_mounts() -> None:
    assert folders_of(["/a/b"]) == (b"",)
    assert folders_of(["/a/x", "/b/x", "/c/y/", "/b/x-2"]) == (b"x", b"x-2", b"y", b"x-2-2")


def test_problems_known_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o555)
    assert problem_of(str(tmp_path / "new")) == ""
    assert problem_of(str(tmp_path)) == ""
    assert "is not a directory" in problem_of(str(tmp_path / "file"))
    assert "does not exist" in problem_of(str(tmp_path / "no/such"))
    assert "is not a directory" in problem_of(str(tmp_path / "file/out"))
    if os.getuid() != 0:
        assert "not writable" in problem_of(str(tmp_path / "closed"))
        assert "not writable" in problem_of(str(tmp_path / "closed/new"))


def test_backups_never_meet(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        (tmp_path / "name").write_text(str(number))
        path = os.fsencode(tmp_path / "name")
        names.append(os.path.basename(back_up(path, path)))
    assert names == [b"name.~1~", b"name.~2~", b"name.~3~"]


def test_an_empty_directory_that_changes_its_rank(tmp_path: Path) -> None:
    """One rank removes its directory, another has made one of the same name: it is there in the
    end, whichever of them makes its pass first."""
    (tmp_path / "out").mkdir()
    header = Header("job", str(tmp_path / "out"), ("",), 0o022, True)
    ranks = []
    for rank in ("before", "after"):
        (tmp_path / rank).mkdir()
        placed = Placed(str(tmp_path / f"placed-{rank}"), header)
        roots = [(b"", os.fsencode(tmp_path / rank))]
        ranks.append(StageOut(roots, Target(header), placed, None, ffi.new("int32_t *")))
    before, after = ranks
    (tmp_path / "before" / "d").mkdir()
    before.run(last=False)
    (tmp_path / "before" / "d").rmdir()
    (tmp_path / "after" / "d").mkdir(0o750)
    after.run(last=True)
    before.run(last=True)
    after.run(last=True)
    assert stat.S_IMODE((tmp_path / "out" / "d").stat().st_mode) == 0o750
