"""Runs CPython's own tests of files in a plain directory and among the outputs of a mount.

    tools/cpython_tests.py [--quick] [--python PYTHON] [--verbose] [MODULE ...]

Prints each test whose outcome under FanStore differs from docs/cpython-tests.md. The table there
names every test that passes in a plain directory and fails, or is skipped, in a mount. Exit code 1
if an outcome differs; 77 if no interpreter here has CPython's tests."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "cpython-tests.md"
CASE = Path(__file__).with_name("cpython_case.py")
MODULES = (
    "test_os test_posix test_io test_fileio test_pathlib test_shutil test_tempfile test_zipfile "
    "test_tarfile test_mmap test_glob"
).split()

# Left out by --quick: tests of a second each that only use pipes, and seven of deep trees that test
# the same.
SLOW = [
    "test_io.*SignalsTest.test_interrupted_write_*", "test_io.*SignalsTest.test_reentrant_write_*",
    "test_tarfile.NoneInfoExtractTests_*",
]  # fmt: skip

_LIMIT_S = 300.0
_ROW = re.compile(r"\| `(?P<test>test_\w+\.[\w.*]+)` \| (?P<outcome>failed|skipped) \|")


@dataclass
class Results:
    """The outcomes of tests, by name: "ok", "failed", "skipped" or "begun" (it never ended)."""

    outcomes: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    def read(self, lines: Iterable[str]) -> None:
        """Adds outcomes that cpython_case.py wrote."""
        for line in lines:
            said = json.loads(line)
            self.outcomes[said["test"]] = said["outcome"]
            self.why[said["test"]] = said["why"]


def find_python(asked: str = "") -> str | None:
    """Returns an interpreter that has CPython's tests, or None."""
    for python in [asked] if asked else [sys.executable, "python3", "/usr/bin/python3"]:
        found = subprocess.run(
            [python, "-c", "import test.test_os"], capture_output=True, check=False
        )
        if found.returncode == 0:
            return python
    return None


def expected() -> dict[str, str]:
    """Returns the outcomes of the document's table, by test."""
    return {row["test"]: row["outcome"] for row in _ROW.finditer(DOC.read_text())}


def run_module(
    python: str, module: str, base: Path, skipped: Sequence[str], env: dict[str, str]
) -> Results:
    """Runs a module in a new directory below `base`, which also gets its temporary files."""
    here = base / module
    (here / "tmp").mkdir(parents=True)
    notes = Path(env["CPYTHON_TESTS_NOTES"]) / f"{module}.json"
    argv = [python, str(CASE), str(notes), module, *skipped]
    with subprocess.Popen(
        argv, cwd=here, env={**env, "TMPDIR": str(here / "tmp")}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            _, stderr = process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stderr = f"took more than {_LIMIT_S:.0f} s"
    results = Results()
    if notes.exists():
        results.read(notes.read_text().splitlines())
    if process.returncode != 0:
        results.outcomes[module] = "failed"
        results.why[module] = f"exit code {process.returncode}: {stderr[-2000:]}"
    return results


def run_all(python: str, modules: Sequence[str], base: Path, skipped: Sequence[str]) -> Results:
    """Runs modules below `base` in turn."""
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    everything = Results()
    for module in modules:
        mine = [name for name in skipped if name.startswith(module + ".")]
        results = run_module(python, module, base, mine, env)
        everything.outcomes |= results.outcomes
        everything.why |= results.why
    return everything


def inner(base: str, spec: str) -> int:
    """Runs the modules that the file `spec` names below `base`, and writes the outcomes to its
    field "results"."""
    said = json.loads(Path(spec).read_text())
    found = run_all(said["python"], said["modules"], Path(base), said["skipped"])
    Path(said["results"]).write_text(json.dumps([found.outcomes, found.why]))
    return 0


def run_plain(spec: dict[str, object], scratch: Path) -> Results:
    """Runs the tests in a plain directory."""
    return _run(spec, scratch / "plain", [], str(scratch / "plain" / "at"))


def run_mounted(spec: dict[str, object], scratch: Path) -> Results:
    """Runs the tests in a mount of a dataset with one file."""
    here = scratch / "mounted"
    source, dataset, mount = scratch / "source", scratch / "data", scratch / "mount"
    source.mkdir()
    (source / "input").write_text("an input\n")
    fanstore = [sys.executable, "-m", "fanstore"]
    subprocess.run([*fanstore, "prepare", "--quiet", str(source), str(dataset)], check=True)
    (scratch / "local").mkdir()
    options = [
        "--dataset", str(dataset), "--mount", str(mount), "--local-dir", str(scratch / "local"),
        "--output-dir", str(scratch / "output"), "--quiet", "--",
    ]  # fmt: skip
    return _run(spec, here, [*fanstore, "run", *options], str(mount / "cpython"))


def _run(spec: dict[str, object], notes: Path, before: Sequence[str], base: str) -> Results:
    """Runs a spec below `base` with the command words `before`. notes: a directory for its
    files."""
    notes.mkdir()
    paths = {"results": str(notes / "results.json")}
    (notes / "spec.json").write_text(json.dumps({**spec, **paths}))
    argv = [*before, sys.executable, __file__, "--inner", base, str(notes / "spec.json")]
    env = {**os.environ, "CPYTHON_TESTS_NOTES": str(notes)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if not Path(paths["results"]).exists():
        raise RuntimeError(f"{argv}: {done.returncode}: {done.stderr[-4000:]}")
    outcomes, why = json.loads(Path(paths["results"]).read_text())
    if done.returncode != 0:
        outcomes["job"], why["job"] = "failed", f"{done.returncode}: {done.stderr[-4000:]}"
    return Results(outcomes, why)


def only_mounted(plain: Results, mounted: Results) -> dict[str, str]:
    """Returns the tests that pass in a plain directory, and fail or are skipped in a mount."""
    names = plain.outcomes.keys() | mounted.outcomes.keys()
    pairs = {n: (plain.outcomes.get(n, "ok"), mounted.outcomes.get(n, "failed")) for n in names}
    worse = {"begun": "failed"}
    return {
        name: worse.get(ours, ours)
        for name, (real, ours) in sorted(pairs.items())
        if ours != real and ours != "ok" and real != "failed"
    }


def compare(found: dict[str, str], listed: dict[str, str], mounted: Results) -> list[str]:
    """Returns a line for each test whose outcome differs from the document."""
    lines = []
    for name, outcome in found.items():
        if listed.get(name) != outcome:
            lines.append(f"{name}: {outcome}, listed as {listed.get(name, 'ok')}")
    for name, outcome in listed.items():
        if name not in found and name in mounted.outcomes:
            lines.append(f"{name}: {mounted.outcomes[name]}, listed as {outcome}")
    return sorted(lines)


def run_both(
    python: str, modules: Sequence[str], quick: bool, scratch: Path
) -> tuple[Results, Results]:
    """Returns the outcomes of both runs, which run side by side."""
    spec = {"python": python, "modules": list(modules), "skipped": SLOW if quick else []}
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run, spec, scratch) for run in (run_plain, run_mounted)]
        return runs[0].result(), runs[1].result()


def main() -> int:
    if sys.argv[1:2] == ["--inner"]:
        return inner(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--quick", action="store_true", help="without the slow tests")
    parser.add_argument("--python", default="", help="an interpreter that has CPython's tests")
    parser.add_argument("--verbose", action="store_true", help="show why each test failed")
    options = parser.parse_args()
    python = find_python(options.python)
    if python is None:
        print("no interpreter here has CPython's tests")
        return 77
    with tempfile.TemporaryDirectory(prefix="cpython-tests-") as scratch:
        plain, mounted = run_both(python, options.modules, options.quick, Path(scratch))
    found = only_mounted(plain, mounted)
    lines = compare(found, expected(), mounted)
    print("\n".join([*lines, f"{len(mounted.outcomes)} tests, {len(lines)} not as listed"]))
    for name in found if options.verbose else ():
        print(f"---- {name}: {found[name]}\n{mounted.why.get(name, '')}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
