"""Whole sets of cases that make outputs, run once on each side and then looked at one by one.

A set is a client in clients/: all of its cases run in one `fanstore run`, and in a plain copy of
the same tree, each in a fresh directory (see clients/out_client.py). Compared are what a case
prints, how it ends, and what it leaves; of FanStore's side also what lies in the output directory
after the command.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from arena import SELF, Arena, as_user, fanstore_command
from case_set import Set
from harness import snapshot
from mpiexec import MPIEXEC
from output_tree import READ_TREE, build_output_tree, give_to
from programs import CLIENTS, Programs

RUN_LIMIT_S = 300
RUNNER = CLIENTS / "out_runner.py"
OVER = "mtovr"
GIVEN = ("given", "sub", "sub/inner")
FLAGS = ("-O0",)


@dataclass(frozen=True)
class Seen:
    """Of one case on one side."""

    status: int
    text: str
    tree: dict[str, list]


class Recordings:
    """Runs a set when its first case is asked for."""

    def __init__(
        self, arena: Arena, programs: Programs, sets: Sequence[Set], name: str = "outputs"
    ) -> None:
        self.base = arena.base / name
        self.base.mkdir()
        self._arena, self._programs, self._sets = arena, programs, sets
        self._seen: dict[str, dict[str, dict[tuple[str, str], Seen]]] = {}
        self._faults: dict[str, str] = {}
        self.base.chmod(0o1777)
        self.plain, self._dataset = self.base / "plain", self.base / "dataset"

    def seen(self, group: Set, case: str, kind: str) -> tuple[Seen | None, Seen]:
        """Both sides of a case; no plain one where there is none."""
        if group.label not in self._seen:
            self._record(group)
        sides = self._seen[group.label]
        served = sides["mount"].get((case, kind))
        assert served is not None, f"did not come to it: {self._faults[group.label]}"
        return sides["plain"].get((case, kind)), served

    def staged(self, group: Set) -> dict[tuple[str, str], dict[str, list]]:
        """What of each case lies in the output directory after the run, as its user sees it."""
        top = self.output_directory(group)
        places = {pair: str(top / group.within(*pair)) for pair in group.parameters()}
        listed = subprocess.run(
            [*as_user(group.user), str(python_of(group.user)), str(RUNNER), "--trees",
             *places.values()], capture_output=True, timeout=RUN_LIMIT_S, check=True,
        )  # fmt: skip
        text = hide(listed.stdout.decode(), self.mount(group), self._scratch(group, "mount"))
        found = json.loads(text)
        return {pair: found[place] for pair, place in places.items()}

    def mount(self, group: Set) -> Path:
        """Where FanStore's side of a set is; as long a path as the plain one."""
        return self.base / (OVER if group.where == "over" else "mount")

    def output_directory(self, group: Set) -> Path:
        return self.base / f"out-{group.label}"

    def _scratch(self, group: Set, side: str) -> Path:
        return self.base / f"w_{side}" / group.label

    def _record(self, group: Set) -> None:
        if python_of(group.user) is None:
            pytest.skip("only root can become another user, and that needs a Python it may run")
        self.dataset()
        for source in group.compiled():
            self._programs.path(source, *FLAGS)  # once, before both sides want it
        if group.others:
            self._programs.others()
        with ThreadPoolExecutor(2) as pool:
            sides = list(pool.map(lambda side: self._side(group, side), ("plain", "mount")))
        self._seen[group.label] = dict(zip(("plain", "mount"), sides, strict=True))

    def dataset(self) -> Path:
        """The dataset of the tree, prepared once."""
        if not self._dataset.exists():
            self._furnish()
        return self._dataset

    def _furnish(self) -> None:
        """The plain tree, and the dataset of it."""
        build_output_tree(self.plain, self._sets)
        if SELF:
            subprocess.run(["cp", "-a", self.plain, self.base / "mount"], check=True)
            self._dataset.mkdir()
        else:
            self._arena.fanstore("prepare", str(self.plain), str(self._dataset))
        subprocess.run(["cp", "-a", self.plain, self.base / OVER], check=True)
        self._original = snapshot(self.base / OVER, times=True)

    def original_is_untouched(self) -> bool:
        """Whether the copy that is mounted over is what it was."""
        return snapshot(self.base / OVER, times=True) == self._original

    def _side(self, group: Set, side: str) -> dict[tuple[str, str], Seen]:
        root = self.plain if side == "plain" else self.mount(group)
        scratch = self._scratch(group, side)
        scratch.mkdir(parents=True)
        spec, record = scratch / "spec.json", scratch / "record.jsonl"
        spec.write_text(json.dumps(self._specs(group, root, side == "mount")))
        runner = [
            str(python_of(group.user)),
            "-u",
            str(CLIENTS / "out_runner.py"),
            str(record),
            str(spec),
        ]
        if group.user is not None:
            give_to(group.user, scratch)
        env = {**self._arena.plain.env, "T": str(root), "W": str(scratch)}
        env["MADE"] = str(root / "built" / group.label / READ_TREE) if group.reads else ""
        if group.reads:
            env["LIBRARIES"] = self._programs.library("preload_other.c")
        served = side == "mount" and not SELF
        command = [*self._serve(group), "--", *runner] if served else runner
        if served and group.where == "ranks":
            command = self._beside_another_rank(command, scratch / "ended")
        done = subprocess.run(
            [*as_user(group.user), *command], env=env, cwd=scratch, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=RUN_LIMIT_S, check=False,
        )  # fmt: skip
        if side == "mount":
            self._faults[group.label] = f"{done.returncode}: {done.stderr.decode()[-2000:]}"
        else:
            assert done.returncode == 0, done
        return read_record(record, root, scratch)

    def fault(self, group: Set) -> str:
        """The exit code of `fanstore run` and what it said."""
        return self._faults[group.label]

    def _serve(self, group: Set) -> list[str]:
        local = self.base / f"local-{group.label}"
        local.mkdir(mode=0o700)
        if group.user is not None:
            give_to(group.user, local)
        return [
            *fanstore_command(), "run", "--quiet", "--dataset", str(self._dataset),
            "--mount", str(self.mount(group)), "--local-dir", str(local),
            "--output-dir", str(self.output_directory(group)),
        ]  # fmt: skip

    def _beside_another_rank(self, command: list[str], ended: Path) -> list[str]:
        """The same command as rank 0 of two; the other one lasts as long."""
        at = command.index("--")
        serve, runner = command[:at], command[at + 1 :]
        other = list(serve)
        for option in ("--mount", "--local-dir"):
            other[other.index(option) + 1] += "-1"
        Path(other[other.index("--local-dir") + 1]).mkdir()
        script = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; "  # mpiexec hands on some of its own
        script += '"$@"; code=$?; touch "$0"; exit $code'
        mine = ["sh", "-c", script, str(ended), *runner]
        waits = ["sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.1; done', str(ended)]
        assert MPIEXEC is not None
        return [
            MPIEXEC, "-n", "1", *serve, "--", *mine, ":", "-n", "1", *other, "--", *waits,
        ]  # fmt: skip

    def _specs(self, group: Set, root: Path, served: bool) -> list[dict[str, object]]:
        specs = []
        for case, kind in group.parameters():
            if case.startswith("served_") and (SELF or not served):
                continue
            if group.missing(case):
                continue
            place = str(root / group.within(case, kind))
            spec: dict[str, object] = {"name": case, "kind": kind, "directory": place}
            specs.append(spec | self._work(group, case))
        return specs

    def _work(self, group: Set, case: str) -> dict[str, object]:
        if group.shell:
            found = next(each for each in group.shell if each.name == case)
            if group.others:
                return {"argv": [found.shell, "-c", found.command], "quick": True}
            return {"argv": [found.shell, "-c", 'cd "$D" || exit\n' + found.command]}
        if group.source.endswith(".py"):
            return {"source": group.source, "case": case}
        if group.parts:
            part, _, name = case.partition(".")
            return {"argv": [self._programs.path(f"{part}.c", *FLAGS), name], "quick": True}
        return {"argv": [self._programs.path(group.source, *FLAGS), case.removeprefix("case_")]}


@functools.cache
def python_of(user: int | None) -> str | None:
    """A Python that `user` may run; none where this process cannot become that user."""
    if user is None:
        return sys.executable
    for python in (sys.executable, "/usr/bin/python3"):
        look = f"exec {shlex.quote(python)} -c 'import os; os.pidfd_open'"
        probe = [*as_user(user), "sh", "-c", look]
        with contextlib.suppress(OSError):
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return python
    return None


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
    for program in group.missing(case):
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
    recordings.seen(group, *group.parameters()[0])
    staged = recordings.staged(group)
    for case, kind in group.parameters():
        if group.missing(case):
            continue
        _, served = recordings.seen(group, case, kind)
        there = outputs_of(staged[case, kind], kind)
        wanted = outputs_of(served.tree, kind)
        for name in [each for each in there if each.endswith(".partial")]:
            there[name.removesuffix(".partial")] = there.pop(name)  # its writer was killed
        assert there == wanted, f"{case} {kind}: {recordings.fault(group)}"


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
