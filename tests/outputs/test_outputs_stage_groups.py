"""Small files that are copied and named many at a time: what is not plain among them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from output_ranks import Cluster
from output_staging import run, settled, tree

from fanstore._native import ffi
from fanstore.outputs.model.entries import split
from fanstore.outputs.stageout import syncing
from fanstore.outputs.stageout.placing import name_together

COUNT = 300  # more than are taken together


@pytest.mark.parametrize("whole", [True, False])
def test_groups_keep_bytes_modes_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Synced as a whole file system, and each file by itself."""
    monkeypatch.setattr(syncing, "_MANY", 2 if whole else COUNT + 1)
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]
    content = {f"f{n}": bytes([n % 256]) * (n * 700) for n in range(COUNT)}

    async def work() -> None:
        for number, (name, data) in enumerate(content.items()):
            rank.publish(name.encode(), data, 0o400 + number % 64, -1_500_000_001 - number)

    (summary,) = run(cluster, work)
    assert tree(cluster.output_dir) == content
    for number, name in enumerate(content):
        found = os.stat(cluster.output_dir / name)
        assert stat.S_IMODE(found.st_mode) == 0o400 + number % 64
        assert found.st_mtime_ns == -1_500_000_001 - number
    assert (summary["staged"], summary["unplaced"]) == (COUNT, [])
    assert summary["copied_bytes"] == sum(map(len, content.values()))


def test_what_is_in_the_way_of_one_of_a_group_is_put_aside(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        rank.publish(b"first")
        await settled(rank)
        (cluster.output_dir / "f7").write_text("somebody's")
        for n in range(COUNT):
            rank.publish(b"f%d" % n, b"%d" % n)

    (summary,) = run(cluster, work)
    expected: dict[str, Any] = {f"f{n}": b"%d" % n for n in range(COUNT)}
    assert tree(cluster.output_dir) == {**expected, "first": b"", "f7.~1~": b"somebody's"}
    assert summary["backups"] == ["f7.~1~"]


def test_holes_stay_holes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    rank = cluster.ranks[0]

    async def work() -> None:
        for name in (b"a", b"sparse", b"b"):
            rank.publish(name, b"")
        entry = rank.name_tables.get(split(0, b"sparse"))
        assert entry is not None
        os.truncate(rank.objects.path(entry.object_id), 1 << 19)

    run(cluster, work, started=False)
    found = os.stat(cluster.output_dir / "sparse")
    assert (found.st_size, found.st_blocks) == (1 << 19, 0)


def test_names_end_where_one_is_not_free_and_when_nothing_is_waited_for(tmp_path: Path) -> None:
    olds = [tmp_path / f"old{n}" for n in range(3)]
    for path in olds:
        path.write_text(path.name)
    (tmp_path / "new1").write_text("taken")
    pairs = [(os.fsencode(old), os.fsencode(tmp_path / f"new{n}")) for n, old in enumerate(olds)]
    assert name_together(pairs, ffi.new("int32_t *", 1)) == []
    assert len(name_together(pairs, ffi.new("int32_t *"))) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new0", "new1", "old1", "old2"]
    assert (tmp_path / "new1").read_text() == "taken"
