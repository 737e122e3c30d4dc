"""Runs small programs of the frameworks that jobs use: on a plain directory, under FanStore, and
with --trap. Makes docs/frameworks.md.

    tools/frameworks.py [--check] [--venv DIR] [NAME ...]

The programs are in tools/frameworks/; those in shell need their commands to be installed. Python
packages go into a virtual environment outside the repository (13 GB for all; all programs take an
hour on two cores); missing packages are installed there, in their newest version. --check compares
outcomes with the page instead of writing it: exit code 1 if one differs. With NAMEs the other rows
stay."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "frameworks.md"
PROGRAMS = Path(__file__).with_name("frameworks")
MODES = ("plain", "preload", "trap")
SAME = "same"

_LIMIT_S = 300.0
_HEADER = re.compile(r"^# (does|needs|alone|version|remark): *(.*)$", re.MULTILINE)
_RANDOM = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(\b[0-9a-f]{2}/)*[0-9a-f]{16,}(-\d+)?|\b[a-z2-7]{40,}|\d{10,}|\d{8}_\d{6}"
    r"|\btmp[a-z0-9_]{8}\b|\b\d+(?=\.0$)"
)
_ROW = re.compile(r"^\| `(\w+)` \|.*$", re.MULTILINE)
_QUIET = {
    "HF_HUB_OFFLINE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow", "OMP_NUM_THREADS": "2",
    "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "ignore",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip
_FILES = {
    "a.txt": "a line\n" * 100, "sub/b.txt": "another line\n", "sub/deep/c.txt": "third\n",
    "a.json": '{"x": [1, 2, {"y": "z"}]}\n', "n.h": "#define N 7\n",
    "main.c": '#include <stdio.h>\n#include <n.h>\nint main(void) { printf("%d\\n", N); }\n',
    "Walk.java": """import java.nio.file.*;
class Walk {
    public static void main(String[] a) throws Exception {
        try (var all = Files.walk(Path.of(a[0], "files"))) {
            all.sorted().forEach(System.out::println);
        }
        Files.copy(Path.of(a[0], "files/a.txt"), Path.of(a[0], "out/j.txt"));
        System.out.println(Files.size(Path.of(a[0], "out/j.txt")));
    }
}
""",
    "main.rs": """use std::{env, fs, path::Path};
fn walk(at: &Path) {
    let mut all: Vec<_> = fs::read_dir(at).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    for path in all {
        println!("{} {}", path.display(), fs::metadata(&path).unwrap().is_dir());
        if path.is_dir() { walk(&path) }
    }
}
fn main() {
    let top = env::args().nth(1).unwrap();
    walk(&Path::new(&top).join("files"));
    fs::copy(format!("{top}/files/a.txt"), format!("{top}/out/r.txt")).unwrap();
    println!("{}", fs::read_to_string(format!("{top}/out/r.txt")).unwrap().len());
}
""",
    "main.go": """package main
import ("fmt"; "io/fs"; "os"; "path/filepath")
func main() {
	top := os.Args[1]
	filepath.WalkDir(top+"/files", func(path string, e fs.DirEntry, err error) error {
		fmt.Println(path, e.IsDir(), err)
		return err
	})
	text, err := os.ReadFile(top + "/files/a.txt")
	fmt.Println(len(text), err, os.WriteFile(top+"/out/g.txt", text, 0o644))
	os.Rename(top+"/out/g.txt", top+"/out/h.txt")
}
""",
    "main.js": "import { x } from './x.js'; console.log(x);\n", "x.js": "export const x = 7;\n",
}  # fmt: skip

HEAD = """# Frameworks and tools that were tried

Most programs run under `fanstore run` as they are. Programs written in Go and static programs need
[`--trap`](trap.md).

Each row is a small program in `tools/frameworks/`. It reads a dataset and writes results beside
it, as users of the framework do. `tools/frameworks.py` runs it on a plain directory, under
`fanstore run` and under `fanstore run --trap`, and makes this page. Nothing else of the frameworks
was tried.

## Programs that differ

The last column says how. A program that needs `--trap` does the same with it as on a plain
directory; without it, the program fails or finds no files.

"""
HEAD_SAME = """
## Programs that run as they are

Exit code, printed lines, and the names and bytes of outputs were those of the plain directory, with
and without `--trap`.

"""


@dataclass
class Program:
    """One program, from the comments at its top."""

    name: str
    path: Path
    does: str = ""
    needs: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)  # packages to install without their dependencies
    version: str = ""
    remark: str = ""

    @classmethod
    def read(cls, path: Path) -> Program:
        found = dict(_HEADER.findall(path.read_text()))
        return cls(
            path.stem,
            path,
            found["does"],
            found.get("needs", "").split(),
            found.get("alone", "").split(),
            found.get("version", ""),
            found.get("remark", ""),
        )

    def command(self, action: str, directory: Path, python: str) -> list[str]:
        if self.path.suffix == ".py":
            return [python, str(self.path), action, str(directory)]
        return ["sh", str(self.path), str(directory)]


def programs(names: Sequence[str] = ()) -> list[Program]:
    """Returns the programs of tools/frameworks with these names; all of them if there are no
    names."""
    paths = sorted([*PROGRAMS.glob("*.py"), *PROGRAMS.glob("*.sh")])
    found = [Program.read(path) for path in paths if path.stem != "case"]
    unknown = set(names) - {program.name for program in found}
    if unknown:
        raise SystemExit(f"no such program: {', '.join(sorted(unknown))}")
    return [program for program in found if not names or program.name in names]


def prepare_venv(venv: Path, chosen: Sequence[Program]) -> str:
    """Makes a virtual environment with the packages that the programs need. Returns its
    interpreter."""
    if not any(program.needs for program in chosen):
        return sys.executable
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    # In one call, so that the dependencies of one package do not replace those of another.
    install(str(python), [need for program in chosen for need in program.needs])
    install(str(python), [need for program in chosen for need in program.alone], "--no-deps")
    return str(python)


def install(python: str, needs: Sequence[str], *more: str) -> None:
    """Installs those of these packages that are missing."""
    missing = [need for need in sorted(set(needs)) if _version(python, need) is None]
    if missing:
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *more, *missing], check=True)


def _bare(needed: str) -> str:
    """Returns the name of a package without extras and version."""
    return re.split(r"[\[=<>]", needed)[0]


def _version(python: str, needed: str) -> str | None:
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    done = subprocess.run(
        [python, "-c", code, _bare(needed)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def versions(program: Program, python: str) -> str | None:
    """Returns the text that is shown as the version; None if a needed package or command is
    missing."""
    if program.version:
        with contextlib.suppress(FileNotFoundError):
            done = subprocess.run(
                program.version.split(), capture_output=True, text=True, check=False
            )
            first = (done.stdout or done.stderr).splitlines()[0]
            return re.sub(r" \([^)]*\)| *(Copyright|multi-call|protocol).*", "", first).strip()
        return None
    needs = [*program.alone, *program.needs]
    if not needs:
        return f"Python {sys.version.split()[0]}"
    found = [(_bare(need), _version(python, need)) for need in needs]
    if any(version is None for _, version in found):
        return None
    return f"{found[0][0]} {found[0][1]}"


def make_inputs(chosen: Sequence[Program], source: Path, python: str) -> list[str]:
    """Makes a directory of inputs for each program. Returns the names of the programs for which
    that failed."""
    failed = []
    for program in chosen:
        directory = source / program.name
        directory.mkdir(parents=True)
        if program.path.suffix == ".py":
            done = run_limited(program.command("make", directory, python))
            if done["code"] != 0:
                failed.append(program.name)
                print(f"{program.name}: cannot make its inputs: {done['stderr'][-2000:]}")
            continue
        for name, text in _FILES.items():
            (directory / "files" / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / "files" / name).write_text(text)
    return failed


def run_limited(argv: Sequence[str]) -> dict[str, object]:
    """Runs a command in a session of its own, and kills it after _LIMIT_S."""
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", env={**os.environ, **_QUIET}, start_new_session=True,
    ) as process:  # fmt: skip
        started = time.monotonic()
        try:
            stdout, stderr = process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            stderr += f"\nkilled after {_LIMIT_S:.0f} s"
    took = time.monotonic() - started
    return {"code": process.returncode, "stdout": stdout, "stderr": stderr, "seconds": took}


def digests(directory: Path) -> dict[str, str]:
    """Returns a digest of each file below a directory, by name; for a symbolic link, its target."""
    found = {}
    for base, folders, names in os.walk(directory):
        for name in [*folders, *names]:
            path = Path(base, name)
            if path.is_dir() and not path.is_symlink():
                continue
            what = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(directory))] = hashlib.sha256(what).hexdigest()
    return found


def inner(base: str, spec: str) -> int:
    """Runs programs in `base`, and writes their outputs beside the file `spec`."""
    said = json.loads(Path(spec).read_text())
    results = {}
    for program in programs(said["names"]):
        directory = Path(base) / program.name
        print(f"{said['mode']}: {program.name}", flush=True)
        if program.path.suffix == ".sh":
            (directory / "out").mkdir()
        done = run_limited(program.command("use", directory, said["python"]))
        stdout = str(done["stdout"]).replace(base, "BASE")
        files = digests(directory / "out")
        results[program.name] = {**done, "base": base, "stdout": stdout, "files": files}
    Path(said["results"]).write_text(json.dumps(results))
    return 0


def run_mode(mode: str, names: Sequence[str], python: str, scratch: Path) -> dict[str, dict]:
    """Returns the outputs of all programs in one mode; `staged`: their files in the output
    directory."""
    here = scratch / mode
    here.mkdir()
    spec = {"mode": mode, "names": list(names), "python": python, "results": str(here / "results")}
    (here / "spec").write_text(json.dumps(spec))
    # The same name in all modes, of equal length, because programs align output after paths.
    base = here / "data"
    before: list[str] = []
    if mode == "plain":
        shutil.copytree(scratch / "source", base)
    else:
        before = [
            sys.executable, "-m", "fanstore", "run", "--quiet", "--dataset",
            str(scratch / "dataset"), "--mount", str(base), "--output-dir", str(here / "out"),
            "--local-dir", str(here), *(["--trap"] if mode == "trap" else []), "--",
        ]  # fmt: skip
    argv = [*before, sys.executable, __file__, "--inner", str(base), str(here / "spec")]
    subprocess.run(argv, check=False)
    results = json.loads((here / "results").read_text())
    for name in results:
        results[name]["staged"] = digests(here / "out" / name / "out")
    return results


def outcome(plain: dict, mounted: dict) -> str:
    """Returns SAME, or the first difference."""
    if plain["code"] != mounted["code"]:
        return f"exit code {mounted['code']} instead of {plain['code']}"
    if plain["stdout"] != mounted["stdout"]:
        return "prints otherwise"
    if _names(plain) != _names(mounted):
        return "writes otherwise"
    return SAME if mounted["files"] == mounted["staged"] else "not staged out whole"


def _names(result: dict) -> list[str]:
    """Returns the names of written files, without parts that differ in each run: places, digests
    and random parts."""
    place = result["base"].replace("/", "_")
    names = [name.replace(place, "BASE") for name in result["files"]]
    return sorted(_RANDOM.sub("N", name) for name in names)


def rows(
    chosen: Sequence[Program], shown: dict[str, str], results: dict[str, dict[str, dict]]
) -> Iterator[tuple[str, str]]:
    """Yields a row of the table for each program that was run, by name."""
    for program in chosen:
        plain = results["plain"].get(program.name)
        if program.name not in shown or plain is None:
            cell = "not tried"
        elif plain["code"] != 0:
            cell = f"not tried: exit code {plain['code']} on a plain directory"
        else:
            cell = judged(*(outcome(plain, results[mode][program.name]) for mode in MODES[1:]))
            cell += f": {program.remark}" if cell != SAME and program.remark else ""
        said = shown.get(program.name, "")
        row = f"| `{program.name}` | {said} | {program.does} |"
        yield program.name, row if cell == SAME else f"{row} {cell} |"


def judged(preload: str, trap: str) -> str:
    """Returns the outcomes without and with --trap as one text."""
    if preload == trap:
        return preload
    if trap == SAME:
        return "needs `--trap`"
    return f"{preload}; with `--trap`: {trap}"


def page(table: dict[str, str]) -> str:
    """Returns the whole document; programs that were never run have a row that says so."""
    untried = rows(programs(), {}, {"plain": {}})
    table = {**dict(untried), **table}
    same = {name for name, row in table.items() if _outcome(row) == SAME}
    head = ["program", "version", "it does"]
    others = tabled([*head, "outcome"], [table[name] for name in sorted(table.keys() - same)])
    return HEAD + others + HEAD_SAME + tabled(head, [table[name] for name in sorted(same)])


def tabled(head: list[str], rows: list[str]) -> str:
    """Returns a table in Markdown."""
    return "\n".join([f"| {' | '.join(head)} |", "| --- " * len(head) + "|", *rows]) + "\n"


def listed() -> dict[str, str]:
    """Returns the rows of the page, by name."""
    return {m.group(1): m.group(0) for m in _ROW.finditer(DOC.read_text())} if DOC.exists() else {}


def _outcome(row: str) -> str:
    return row.split("|")[4].strip() or SAME


def try_all(chosen: Sequence[Program], venv: Path, details: Path | None) -> dict[str, str]:
    """Runs programs in every mode. Returns their rows."""
    python = prepare_venv(venv, chosen)
    found = {program.name: versions(program, python) for program in chosen}
    shown = {name: version for name, version in found.items() if version is not None}
    with tempfile.TemporaryDirectory(prefix="frameworks-") as folder:
        scratch = Path(folder)
        there = [program for program in chosen if program.name in shown]
        failed = make_inputs(there, scratch / "source", python)
        names = [program.name for program in there if program.name not in failed]
        prepare = [sys.executable, "-m", "fanstore", "prepare", "--quiet"]
        subprocess.run([*prepare, str(scratch / "source"), str(scratch / "dataset")], check=True)
        results = {mode: run_mode(mode, names, python, scratch) for mode in MODES}
    if details is not None:
        details.write_text(json.dumps(results, indent=1))
    return dict(rows(chosen, shown, results))


def main() -> int:
    if sys.argv[1:2] == ["--inner"]:
        return inner(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="compare with the page")
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "fanstore-frameworks")
    parser.add_argument("--details", type=Path, help="write all that the programs said here")
    options = parser.parse_args()
    table = try_all(programs(options.names), options.venv, options.details)
    before = listed()
    if not options.check:
        DOC.write_text(page({**before, **table} if options.names else table))
        return 0
    wrong = [n for n in table if n not in before or _outcome(table[n]) != _outcome(before[n])]
    for name in wrong:
        print(f"now:    {table[name]}\nlisted: {before.get(name, '')}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
