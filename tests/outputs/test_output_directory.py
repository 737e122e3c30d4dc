"""Which output directory a job may have: told before anything of it starts."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import LIMIT_S, Stage, make_stage

from fanstore._native import ffi
from fanstore.outputs.files import placing
from fanstore.outputs.files.location import folders_of, problem_of, refusal_of
from fanstore.outputs.files.placing import back_up
from fanstore.outputs.model.entries import Identity
from fanstore.outputs.tree import passes, target, walk
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
        stage.mount / "inside": "lies in the mount prefix",
        stage.path / ".fanstore-me": "lies in FanStore's own directory",
    }.items():
        done = stage.run(dataset, "touch", str(stage.path / "ran"), options=options(path), code=125)
        assert why in done.stderr and str(path) in done.stderr
        assert stage.leftovers() == []
    assert not (stage.path / "ran").exists()


def run_in(cwd: Path, stage: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fanstore", "run", *arguments],
        env={**stage.env, "PWD": str(cwd), "HOME": str(stage.path)}, cwd=cwd,
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip


def test_the_default_is_tried_at_the_start_too(stage: Stage, dataset: Path) -> None:
    (stage.path / "cwd").mkdir()
    (stage.path / "cwd/fanstore-output").write_text("")
    done = run_in(stage.path / "cwd", stage, str(dataset), "--", "true")
    assert done.returncode == 0  # a job that writes nothing needs none
    assert (
        f"{stage.path}/cwd/fanstore-output (default): is not a directory; give another one, "
        f"such as --output-dir {stage.path}/fanstore-output\n" in done.stderr
    )


def test_a_job_in_its_own_dataset_is_told_an_output_directory_that_works(stage: Stage) -> None:
    source = stage.source(files={"d/inside": b"inside"})
    command = ("--", "sh", "-c", "cat inside >copy; cat copy")
    refused = run_in(source / "d", stage, "..", *command)
    assert refused.returncode == 125
    option = shlex.split(refused.stderr.rpartition(", such as ")[2])
    assert option == ["--output-dir", f"{stage.path}/fanstore-output"]
    done = run_in(source / "d", stage, *option, "..", *command)
    assert (done.returncode, done.stdout) == (0, "inside"), done.stderr
    assert (stage.path / "fanstore-output/d/copy").read_text() == "inside"


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
    done = run_in(link, stage, *where, "--", "touch", str(stage.path / "ran"))
    assert done.returncode == 125
    assert f"output directory {original}/d/fanstore-output (default): " in done.stderr
    assert f"lies in the mount prefix {original}; give another one, such as" in done.stderr
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


def outputs(tmp_path: Path) -> dict[str, str]:
    """The file `f` and its backups in the output directory."""
    return {path.name: path.read_text() for path in (tmp_path / "out").glob("f*")}


def make_passes(path: Path, count: int) -> list[StageOut]:
    """Of several ranks, whose trees are `0`, `1` and so on: each gives what it placed."""
    (path / "out").mkdir()
    header = Header("job", str(path / "out"), ("",), 0o022, True)
    made: list[StageOut] = []
    for rank in range(count):
        (path / str(rank)).mkdir()
        into, placed = Target(header), Placed(str(path / f"placed{rank}"), header)
        roots = [(b"", os.fsencode(path / str(rank)))]
        made.append(StageOut(roots, into, placed, None, ffi.new("int32_t *")))
        made[rank].take = lambda *asked, rank=rank: any(
            each.give(*asked) for each in made if each is not made[rank]
        )
    return made


def test_a_marker_waits_for_the_file_that_was_finished_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are finished while a pass walks over the tree: behind it, and before it."""
    (stage_out,) = make_passes(tmp_path, 1)
    entries, walked = walk._entries, []

    def watched(shown: bytes, *more: Any) -> Iterator[os.DirEntry[bytes]]:
        walked.append(shown)
        found = list(entries(shown, *more))
        if shown and len(walked) == 2:
            (tmp_path / "0" / os.fsdecode(shown) / "file").write_text("checkpoint")
            other = {b"a": "b", b"b": "a"}[shown]
            (tmp_path / "0" / other / "marker").write_text("marker")
        return iter(found)

    for name in "ab":
        (tmp_path / "0" / name).mkdir()
    monkeypatch.setattr(walk, "_entries", watched)
    stage_out.run(last=False)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    stage_out.run(last=False)
    placed = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert placed == ["file", "marker"]


def test_an_empty_directory_that_changes_its_rank(tmp_path: Path) -> None:
    """One rank removes its directory, another has made one of the same name: it is there in the
    end, whichever of them makes its pass first."""
    before, after = make_passes(tmp_path, 2)
    (tmp_path / "0" / "d").mkdir()
    before.run(last=False)
    (tmp_path / "0" / "d").rmdir()
    (tmp_path / "1" / "d").mkdir(0o750)
    after.run(last=True)
    before.run(last=True)
    after.run(last=True)
    assert stat.S_IMODE((tmp_path / "out" / "d").stat().st_mode) == 0o750


def test_a_file_that_changes_its_rank_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rank finds the file in its way before the one that named it has noted that."""
    before, after = make_passes(tmp_path, 2)
    (tmp_path / "0" / "f").write_text("before")
    (tmp_path / "1" / "f").write_text("the file after")

    def name_together(*args: Any) -> list[Identity]:
        monkeypatch.setattr(passes, "name_together", placing.name_together)
        named = placing.name_together(*args)
        after.run(last=False)
        return named

    monkeypatch.setattr(passes, "name_together", name_together)
    before.run(last=False)
    (tmp_path / "0" / "f").unlink()
    before.run(last=False)
    assert outputs(tmp_path) == {"f": "the file after"}


def test_a_file_that_changes_its_rank_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third rank places its file between the look of the second and its exchange of names."""
    first, second, third = make_passes(tmp_path, 3)
    (tmp_path / "0" / "f").write_text("1")
    first.run(last=False)
    (tmp_path / "1" / "f").write_text("22")
    (tmp_path / "2" / "f").write_text("333")

    def exchange(old: bytes, new: bytes) -> bool:
        monkeypatch.setattr(target, "exchange", placing.exchange)
        third.run(last=False)
        return placing.exchange(old, new)

    monkeypatch.setattr(target, "exchange", exchange)
    second.run(last=False)
    for rank in "01":
        (tmp_path / rank / "f").unlink()
    for each in (first, second, third):
        each.run(last=False)
    assert outputs(tmp_path) == {"f": "333"}


def passes_after_a_removal(tmp_path: Path) -> list[StageOut]:
    """The passes of three ranks: the first has placed `f` and removed its own since, and the others
    have made theirs."""
    passes_of = make_passes(tmp_path, 3)
    (tmp_path / "0" / "f").write_text("1")
    passes_of[0].run(last=False)
    (tmp_path / "0" / "f").unlink()
    (tmp_path / "1" / "f").write_text("22")
    (tmp_path / "2" / "f").write_text("333")
    return passes_of


def test_a_file_that_goes_while_its_rank_is_asked(tmp_path: Path) -> None:
    """By then a third rank has placed its own."""
    first, second, third = passes_after_a_removal(tmp_path)
    take = second.take

    def take_late(name: bytes, identity: Identity) -> bool:
        second.take = take
        first.run(last=False)
        third.run(last=False)
        return False

    second.take = take_late
    second.run(last=False)
    (tmp_path / "1" / "f").unlink()
    for each in (second, third):
        each.run(last=False)
    assert outputs(tmp_path) == {"f": "333"}


def test_a_file_that_is_moved_aside_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank removes its file; between its look and its rename another rank has replaced that, and
    then a third one takes the name."""
    first, second, third = passes_after_a_removal(tmp_path)
    rename = os.rename

    def rename_late(old: bytes, new: bytes) -> None:
        if os.path.basename(old) == b"f":
            monkeypatch.setattr(os, "rename", rename)
            second.run(last=False)
            rename(old, new)
            third.run(last=False)
        else:
            rename(old, new)

    monkeypatch.setattr(os, "rename", rename_late)
    first.run(last=False)
    (tmp_path / "1" / "f").unlink()
    for each in (second, third):
        each.run(last=False)
    assert outputs(tmp_path) == {"f": "333"}
