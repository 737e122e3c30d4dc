"""Trees of any depth are walked and removed."""

from __future__ import annotations

import os
from pathlib import Path

from deep import make_deep

from fanstore.trees import bottom_up, remove_tree

DEPTH = 3000


def test_each_directory_comes_after_those_in_it(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ("a/b/c", "a/d", "e"):
        (top / name).mkdir(parents=True)
    (top / "a" / "link").symlink_to("/")
    (top / "a" / "b" / "file").touch()
    seen = [
        (each.path, sorted(each.directories), sorted(each.others)) for each in bottom_up(str(top))
    ]
    paths = [path.removeprefix(str(tmp_path)) for path, _, _ in seen]
    assert sorted(paths) == ["/top", "/top/a", "/top/a/b", "/top/a/b/c", "/top/a/d", "/top/e"]
    assert all(paths.index(path) > paths.index(inner) for path in paths for inner in paths
               if inner.startswith(f"{path}/"))  # fmt: skip
    assert dict((path, rest) for path, *rest in seen)[f"{top}/a"] == [["b", "d"], ["link"]]


def test_deep_trees_are_walked_with_one_descriptor_and_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    make_deep(top, DEPTH, "leaf")
    before = len(os.listdir("/proc/self/fd"))
    seen = [(each.others, len(os.listdir("/proc/self/fd"))) for each in bottom_up(str(top))]
    assert len(seen) == DEPTH + 1 and seen[0][0] == ["leaf"]
    assert max(fds for _, fds in seen) == before + 1
    remove_tree(top)
    assert not top.exists()


def test_a_walk_ends_where_somebody_moves_what_it_is_in(tmp_path: Path) -> None:
    top, elsewhere = tmp_path / "top", tmp_path / "elsewhere"
    (top / "a" / "b").mkdir(parents=True)
    elsewhere.mkdir()
    walk = bottom_up(str(top))
    assert next(walk).path == f"{top}/a/b"
    (top / "a" / "b").rename(elsewhere / "b")
    assert list(walk) == []
