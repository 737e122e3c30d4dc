"""A mount prefix and FanStore's own directory never meet, whatever a dataset is called."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Stage, make_stage

from fanstore.errors import UsageError
from fanstore.node.prefix import PrefixHold, check_prefixes, spell
from fanstore.staging.base import StagingFolder, user_name

NAMES = ("trash-1", "unstaged", "lock", "jobs", "datasets", "prefixes")
USER = f"prefix-names-{os.getpid()}"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def shared() -> Iterator[dict[str, str]]:
    """A user whose local directory is the one in which default prefixes are."""
    try:
        yield {"USER": USER, "FANSTORE_LOCAL_DIR": "/tmp"}
    finally:
        left = [path for path in Path("/tmp").glob(f"*fanstore-{USER}")]
        for path in left:
            shutil.rmtree(path)
        assert left == []


def test_datasets_that_are_called_as_what_fanstore_makes(
    stage: Stage, shared: dict[str, str]
) -> None:
    """Another job's clean-up takes neither their prefixes nor what was written there."""
    first = stage.dataset(name=NAMES[0])
    datasets = [first, *(stage.path / name for name in NAMES[1:])]
    for path in datasets[1:]:
        shutil.copytree(first, path)
    out = stage.path / "out"
    where = [word for path in datasets for word in ("--dataset", str(path))]
    stage.call("start", *where, "--output-dir", str(out), **shared)
    try:
        prefixes = [f"/tmp/fanstore-{USER}/{name}" for name in NAMES]
        write = "for p; do cd $p && mkdir new && echo $p >new/file || exit 1; done"
        look = "for p; do cd $p/new && cat file && ls .. | wc -l; done"
        stage.call("exec", "--", "sh", "-c", write, "sh", *prefixes, **shared)
        mount = ("--mount", str(stage.mount))
        stage.call("run", "--dataset", str(first), *mount, "--", "true", **shared)
        assert all(map(os.path.isdir, prefixes))
        done = stage.call("exec", "--", "sh", "-c", look, "sh", *prefixes, **shared)
        assert done.stdout.split() == [word for prefix in prefixes for word in (prefix, "21")]
    finally:
        stage.call("stop", **shared)
    assert sorted(os.listdir(out)) == sorted(NAMES)
    assert (out / "unstaged/new/file").read_text() == f"/tmp/fanstore-{USER}/unstaged\n"


def test_what_was_there_under_such_a_name_stays(stage: Stage) -> None:
    """The dataset's own directory as prefix, below the local directory: the job's end removes
    nothing of it."""
    original = stage.local / f"fanstore-{user_name()}" / "trash-mine"
    dataset = stage.dataset()
    shutil.copytree(stage.path / "plain", original)
    where = ("--dataset", str(dataset), "--mount", str(original))
    stage.call("run", *where, "--", "cat", f"{original}/f01")
    assert len(os.listdir(original)) == 20


@pytest.mark.parametrize("inside", [".fanstore-me", ".fanstore-me/jobs/x", ".fanstore-me/other"])
def test_a_mount_in_fanstores_own_directory_is_refused(tmp_path: Path, inside: str) -> None:
    """Be it that of another local directory than this job's."""
    prefix = spell(str(tmp_path / "local" / inside))
    with pytest.raises(UsageError, match="meets FanStore's own directory"):
        check_prefixes([prefix], StagingFolder(str(tmp_path / "elsewhere")))
    check_prefixes([spell(str(tmp_path / "local/fanstore-me/jobs"))], StagingFolder(str(tmp_path)))


def test_a_prefix_that_another_rank_makes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two looks at it: what is there then is used, and is the other's to remove."""
    prefix = tmp_path / "above" / "mount"
    lexists = os.path.lexists

    def look(path: str) -> bool:
        prefix.mkdir(parents=True, exist_ok=True)
        return lexists(path)

    (tmp_path / "local").mkdir()
    base = StagingFolder(str(tmp_path / "local"))
    hold = PrefixHold(base, str(prefix))
    with base.locked():
        monkeypatch.setattr(os.path, "lexists", look)
        hold.hold()
    assert prefix.is_dir() and not hold.made
