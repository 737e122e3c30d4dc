"""Whole sets of cases that make outputs, run once on each side and then looked at one by one.

A set is a client in clients/: all of its cases run in one `fanstore run`, and in a plain copy of
the same tree, each in a fresh directory (see clients/out_client.py). Compared are what a case
prints, how it ends, and what it leaves; of FanStore's side also what lies in the output directory
after the command.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import out_runner
import pytest
from arena import SELF, Arena, fanstore_command
from harness import Case
from programs import CASE, CLIENTS, Programs

RUN_LIMIT_S = 300
BOTH = ("input", "output")
GIVEN = ("given", "sub", "sub/inner")


@dataclass(frozen=True)
class Set:
    """Cases that run together. kinds: see clients/out_client.py.

    volatile: patterns of files whose content holds times or inodes: it is not compared.
    """

    source: str
    kinds: tuple[str, ...] = BOTH
    shell: tuple[Case, ...] = ()
    volatile: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return re.sub(r"\W", "_", self.source)

    def cases(self) -> list[str]:
        """Names of the cases that both sides run, and of those of FanStore's alone."""
        if self.shell:
            return [case.name for case in self.shell]
        text = (CLIENTS / self.source).read_text()
        if not self.source.endswith(".py"):
            return [f"case_{name}" for name in CASE.findall(text)]
        found = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        return [name for name in found if name.startswith(("case_", "served_"))]

    def parameters(self) -> list[tuple[str, str]]:
        """(case, kind) for parametrize."""
        return [(case, kind) for case in self.cases() for kind in self.kinds]

    def needs(self, case: str) -> Sequence[str]:
        """Programs that a shell case uses."""
        return next((each.needs for each in self.shell if each.name == case), ())


@dataclass(frozen=True)
class Seen:
    """Of one case on one side."""

    status: int
    text: str
    tree: dict[str, list]


class Recordings:
    """Runs a set when its first case is asked for."""

    def __init__(self, arena: Arena, programs: Programs, sets: Sequence[Set]) -> None:
        self.base = arena.base / "outputs"
        self.base.mkdir()
        self._arena, self._programs, self._sets = arena, programs, sets
        self._seen: dict[str, dict[str, dict[tuple[str, str], Seen]]] = {}
        self._faults: dict[str, str] = {}
        self.plain, self.mount = self.base / "plain", self.base / "mount"
        self._dataset = self.base / "dataset"

    def seen(self, group: Set, case: str, kind: str) -> tuple[Seen | None, Seen]:
        """Both sides of a case; no plain one where there is none."""
        if group.source not in self._seen:
            self._record(group)
        sides = self._seen[group.source]
        served = sides["mount"].get((case, kind))
        assert served is not None, f"did not come to it: {self._faults[group.source]}"
        return sides["plain"].get((case, kind)), served

    def staged(self, group: Set, case: str, kind: str) -> dict[str, list]:
        """What of a case lies in the output directory after the run."""
        place = self.output_directory(group) / self._within(group, case, kind)
        found = out_runner.tree(str(place)) if place.is_dir() else {}
        return json.loads(hide(json.dumps(found), self.mount, self._scratch(group, "mount")))

    def output_directory(self, group: Set) -> Path:
        return self.base / f"out-{group.label}"

    def _scratch(self, group: Set, side: str) -> Path:
        return self.base / f"w_{side}" / group.label

    def _record(self, group: Set) -> None:
        if not self._dataset.exists():
            self._furnish()
        if not group.shell and not group.source.endswith(".py"):
            self._programs.path(group.source)  # compiled once, before both sides want it
        with ThreadPoolExecutor(2) as pool:
            sides = list(pool.map(lambda side: self._side(group, side), ("plain", "mount")))
        self._seen[group.source] = dict(zip(("plain", "mount"), sides, strict=True))

    def _side(self, group: Set, side: str) -> dict[tuple[str, str], Seen]:
        root, scratch = self.base / side, self._scratch(group, side)
        scratch.mkdir(parents=True)
        spec, record = scratch / "spec.json", scratch / "record.jsonl"
        spec.write_text(json.dumps(self._specs(group, root, side == "mount")))
        runner = [sys.executable, "-u", str(CLIENTS / "out_runner.py"), str(record), str(spec)]
        env = {**self._arena.plain.env, "T": str(root), "W": str(scratch)}
        served = side == "mount" and not SELF
        command = [*self._serve(group), "--", *runner] if served else runner
        done = subprocess.run(
            command, env=env, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=RUN_LIMIT_S, check=False,
        )  # fmt: skip
        if side == "mount":
            self._faults[group.source] = f"{done.returncode}: {done.stderr.decode()[-2000:]}"
        else:
            assert done.returncode == 0, done
        return read_record(record, root, scratch)

    def fault(self, group: Set) -> str:
        """The exit code of `fanstore run` and what it said."""
        return self._faults[group.source]

    def _serve(self, group: Set) -> list[str]:
        local = self.base / f"local-{group.label}"
        local.mkdir(mode=0o700)
        return [
            *fanstore_command(), "run", "--quiet", "--dataset", str(self._dataset),
            "--mount", str(self.mount), "--local-dir", str(local),
            "--output-dir", str(self.output_directory(group)),
        ]  # fmt: skip

    def _specs(self, group: Set, root: Path, served: bool) -> list[dict[str, object]]:
        specs = []
        for case, kind in group.parameters():
            if case.startswith("served_") and (SELF or not served):
                continue
            if any(shutil.which(program) is None for program in group.needs(case)):
                continue
            place = str(root / self._within(group, case, kind))
            spec: dict[str, object] = {"name": case, "kind": kind, "directory": place}
            specs.append(spec | self._work(group, case))
        return specs

    def _work(self, group: Set, case: str) -> dict[str, object]:
        if group.shell:
            found = next(each for each in group.shell if each.name == case)
            return {"argv": [found.shell, "-c", 'cd "$D" || exit\n' + found.command]}
        if group.source.endswith(".py"):
            return {"source": group.source, "case": case}
        return {"argv": [self._programs.path(group.source), case.removeprefix("case_")]}

    @staticmethod
    def _within(group: Set, case: str, kind: str) -> Path:
        return Path("fresh" if kind == "input" else "built") / group.label / case

    def _furnish(self) -> None:
        """The plain tree, and the dataset of it."""
        text = self.plain / "text"
        (text / "sub").mkdir(parents=True)
        (text / "hello.txt").write_text("hello world\n")
        (text / "x").write_text("x")
        (text / "sub" / "inner.txt").write_text("inner line\n")
        (self.plain / "empty_dir").mkdir()
        self._furnish_links()
        for group in self._sets:
            for case, kind in group.parameters():
                if kind == "input":
                    self._furnish_case(self.plain / self._within(group, case, kind))
        if SELF:
            shutil.copytree(self.plain, self.mount, symlinks=True)
            self._dataset.mkdir()
        else:
            self._arena.fanstore("prepare", str(self.plain), str(self._dataset))

    def _furnish_links(self) -> None:
        links = self.plain / "links"
        links.mkdir()
        for name, target in {"to_file": "../text/hello.txt", "to_dir": "../text"}.items():
            os.symlink(target, links / name)
        os.symlink("../text/made_by_link", links / "to_new")
        os.symlink(self.plain, self.base / "o_plain")
        os.symlink(self.mount, self.base / "o_mount")

    @staticmethod
    def _furnish_case(place: Path) -> None:
        (place / "sub").mkdir(parents=True)
        (place / "given").write_text("given\n")
        (place / "sub" / "inner").write_text("sub/inner\n")


def hide(text: str, root: Path, scratch: Path) -> str:
    """`text` without the paths of one side."""
    return text.replace(str(scratch), "{W}").replace(str(root), "{T}")


def read_record(record: Path, root: Path, scratch: Path) -> dict[tuple[str, str], Seen]:
    """The rows that a side's runner came to, without what differs between the sides' paths."""
    text = record.read_text() if record.exists() else ""
    text = hide(text, root, scratch)
    found = {}
    for row in map(json.loads, text.splitlines()):
        seen = Seen(row["status"], row["text"], row["tree"])
        found[row["name"], row["kind"]] = seen
    return found


def check(recordings: Recordings, group: Set, case: str, kind: str) -> None:
    """Passes or fails the test that calls it."""
    for program in group.needs(case):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if SELF and case.startswith("served_"):
        pytest.skip("there is no FanStore to look at")
    plain, served = recordings.seen(group, case, kind)
    if plain is None:
        assert case.startswith("served_"), "the plain side did not come to it"
        assert served.status == 0, served.text
        return
    assert plain.status in (0, *expected_status(group, case)), f"the case is wrong: {plain.text}"
    assert served.text == plain.text, difference(plain.text, served.text)
    assert served.status == plain.status
    assert compared(group, served.tree) == compared(group, plain.tree)


def difference(plain: str, served: str) -> str:
    """The lines that differ."""
    found = difflib.unified_diff(plain.split("\n"), served.split("\n"), "plain", "served", n=1)
    return "\n".join(line.rstrip("\n") for line in found)


def compared(group: Set, tree: dict[str, list]) -> dict[str, list]:
    """What is to be the same on both sides."""
    volatile = re.compile("|".join(group.volatile) or "(?!)")
    return {name: of[:1] if volatile.fullmatch(name) else of for name, of in tree.items()}


def expected_status(group: Set, case: str) -> list[int]:
    return [each.exit for each in group.shell if each.name == case]


def check_staged(recordings: Recordings, group: Set) -> None:
    """Whatever the cases left is in the output directory."""
    if SELF:
        pytest.skip("there is no FanStore to look at")
    for case, kind in group.parameters():
        if any(shutil.which(program) is None for program in group.needs(case)):
            continue
        _, served = recordings.seen(group, case, kind)
        found = recordings.staged(group, case, kind)
        there, wanted = outputs_of(found, kind), outputs_of(served.tree, kind)
        assert there == wanted, (case, kind, recordings.fault(group))


def outputs_of(tree: dict[str, list], kind: str) -> dict[str, list]:
    """Without inputs, and without what is never staged out. Paths have one length on all sides."""
    kept = {}
    for name, of in tree.items():
        mode = int(of[0], 8) if of[0].startswith("0o") else 0
        if kind == "input" and name in GIVEN:
            continue
        if mode == 0 or stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
            kept[name] = of
    return kept
