"""The tree that outputs are written into: small, with a fresh directory for each case."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import read_tree
from case_set import Set

READ_TREE = "read"


def build_output_tree(root: Path, sets: Sequence[Set]) -> None:
    """Fills the new directory `root`."""
    text = root / "text"
    (text / "sub").mkdir(parents=True)
    (text / "hello.txt").write_text("hello world\n")
    (text / "x").write_text("x")
    (text / "sub" / "inner.txt").write_text("inner line\n")
    (root / "empty_dir").mkdir()
    links = root / "links"
    links.mkdir()
    for name, target in {
        "to_file": "../text/hello.txt",
        "to_dir": "../text",
        "to_new": "../text/made_by_link",
    }.items():
        os.symlink(target, links / name)
    for group in sets:
        _furnish_set(root, group)
    if any(group.reads for group in sets):
        read_tree.build(str(root / READ_TREE))


def _furnish_set(root: Path, group: Set) -> None:
    built = root / "built" / group.label
    built.mkdir(parents=True)
    for case, kind in group.parameters():
        if kind == "input":
            _furnish_case(root / group.within(case, kind))
    if group.user is not None and os.getuid() == 0:
        for folder in (built, root / "fresh" / group.label):
            give_to(group.user, folder)


def _furnish_case(place: Path) -> None:
    (place / "sub").mkdir(parents=True)
    (place / "given").write_text("given\n")
    (place / "sub" / "inner").write_text("sub/inner\n")


def give_to(user: int, folder: Path) -> None:
    """Changes the owner of a directory and of all below."""
    if not folder.exists():
        return
    for inner, _, names in os.walk(folder):
        for path in (inner, *(os.path.join(inner, name) for name in names)):
            os.chown(path, user, user, follow_symlinks=False)
