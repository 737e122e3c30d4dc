"""Code that is loaded from a tree behaves in a mount as on a plain file system: dlopen, programs,
Python extension modules, of inputs and of outputs. Also over the tree's original path."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from arena import fanstore_command
from load_tree import build_load_tree, rewrite_tree
from programs import CLIENTS

CLIENT = CLIENTS / "load_client.py"
LIMIT_S = 300
SIDES = ("plain", "mount", "mtown")


def case_names() -> list[str]:
    """Those that the client holds."""
    functions = [node for node in ast.parse(CLIENT.read_text()).body
                 if isinstance(node, ast.FunctionDef)]  # fmt: skip
    names = [node.name for node in functions if node.name.startswith("case_")]
    return [name.removeprefix("case_") for name in names]


class Loading:
    """The trees; a side's run when it is first asked for."""

    def __init__(self, base: Path) -> None:
        self.base = base
        build_load_tree(base / "plain")
        rewrite_tree(base / "plain", base / "given", base / "mount")
        rewrite_tree(base / "plain", base / "mtown", base / "mtown")
        for side in SIDES:
            self._furnish_outside(side)
        self._seen: dict[str, dict[str, tuple[int, str]]] = {}

    def seen(self, side: str) -> dict[str, tuple[int, str]]:
        """By case, how it ended and what it wrote, without the side's paths."""
        if side not in self._seen:
            self._seen[side] = self._run(side)
        return self._seen[side]

    def _furnish_outside(self, side: str) -> None:
        """Libraries, a program and a script that need the tree's, and a link into it."""
        root, outside = self.base / side, self.base / f"o_{side}"
        tree = self.base / "given" if side == "mount" else root
        shutil.copytree(tree / "caller", outside / "side")
        shutil.copy(tree / "absolute/one/libone.so", outside / "side/libuser.so")
        for name in ("without", "absolute", "padded", "padded_old"):
            shutil.copy(tree / "bin" / name, outside)
        (outside / "script").write_text(f"#!{root}/bin/origin\n")
        (outside / "script").chmod(0o755)
        os.symlink(root / "far/libleaf.so", outside / "link.so")

    def _run(self, side: str) -> dict[str, tuple[int, str]]:
        root, outside = self.base / side, self.base / f"o_{side}"
        record = self.base / f"{side}.jsonl"
        client = [sys.executable, str(CLIENT), str(root), str(outside), str(record)]
        if side != "plain":
            self._prepare(side)
        command = client if side == "plain" else [*self.serve(side), "--", *client]
        env = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        env.pop("LD_LIBRARY_PATH", None)
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=env, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        text = record.read_text().replace(str(outside), "{O}").replace(str(root), "{T}")
        return {name: (status, said) for name, status, said in map(json.loads, text.splitlines())}

    def _prepare(self, side: str) -> None:
        tree = self.base / ("given" if side == "mount" else side)
        prepare = [*fanstore_command(), "prepare", str(tree), str(self.base / f"dataset-{side}")]
        subprocess.run([*prepare, "--codec", "lz4" if side == "mount" else "store"], check=True,
                       capture_output=True, timeout=LIMIT_S)  # fmt: skip
        (self.base / f"local-{side}").mkdir(mode=0o700)

    def serve(self, side: str) -> list[str]:
        """What runs a command under the side's mount."""
        return [
            *fanstore_command(), "run", "--quiet", "--dataset", str(self.base / f"dataset-{side}"),
            "--mount", str(self.base / side), "--local-dir", str(self.base / f"local-{side}"),
            "--output-dir", str(self.base / f"out-{side}"),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loading]:
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    base = tmp_path_factory.mktemp("loading")
    yield Loading(base)
    shutil.rmtree(base, ignore_errors=True)


@pytest.mark.parametrize("side", SIDES[1:])
@pytest.mark.parametrize("case", case_names())
def test_as_on_a_plain_tree(loading: Loading, case: str, side: str) -> None:
    plain = loading.seen("plain")[case]
    assert "raised" not in plain[1] and plain[0] == 0, f"the case is wrong: {plain}"
    assert loading.seen(side)[case] == plain


@pytest.mark.parametrize("name", ["script", "absolute", "without"])
def test_command_of_a_job(loading: Loading, name: str) -> None:
    """What is outside and needs the mount is served, also as the command itself."""
    said = []
    for side in ("plain", "mount"):
        command = [str(loading.base / f"o_{side}" / name)]
        if side == "mount":
            loading.seen(side)  # there is a dataset
            command = [*loading.serve(side), "--", *command]
        env = {**os.environ, "LD_LIBRARY_PATH": str(loading.base / side / "far")}
        if name != "without":
            del env["LD_LIBRARY_PATH"]
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=env, check=False)
        assert done.returncode == 0, done.stderr.decode()
        said.append(done.stdout.decode().replace(str(loading.base / side), "{T}"))
    assert said[0].replace("o_plain", "o_mount") == said[1]


def test_no_half_made_files_stay(loading: Loading) -> None:
    loading.seen("mount")
    assert not list((loading.base / "local-mount").rglob("*"))
