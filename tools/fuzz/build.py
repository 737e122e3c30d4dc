"""Builds the fuzz targets and the C tests, with sanitizers or without, and runs them.

    build.py --sanitize address,undefined --rounds 20000
    build.py --sanitize thread
    build.py --sanitize none

Standard library only. The fuzz targets run with the address sanitizer alone. All files are in
build/<sanitizers>/. With sanitizers both libraries are built there too, to see warnings that only
those builds have. Exit code 1 if one of the programs fails."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import native  # noqa: E402

FUZZ = ROOT / "tools" / "fuzz"
C_TESTS = ROOT / "tests" / "c"
SHARED = [FUZZ / "tree.c", FUZZ / "old_lookups.c", FUZZ / "jobdir.c"]
CORE_FOLDERS = (
    "batch", "common", "pack", "client", "local", "policy", "node", "trace",
    "prepare",
)  # fmt: skip
LIMIT_S = 1800


class Compiler:
    """Compiles C files, and links programs from their objects."""

    def __init__(self, out: Path, objects: Path, sanitize: str) -> None:
        flags = ["-O1", *native.sanitizer_flags(sanitize)]
        if "undefined" in sanitize:
            flags.append("-fno-sanitize-recover=all")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        self._command = [*compiler, *native.COMMON_FLAGS, *flags]
        self._objects = native.Objects(objects, self._command)
        self._made: dict[Path, str] = {}
        self._out = out

    def compile(self, sources: Iterable[Path]) -> None:
        """Compiles all sources. Raises SystemExit if one does not compile."""
        files = list(dict.fromkeys(sources))
        self._made.update(zip(files, self._objects.compile(files, ROOT), strict=True))

    def link(self, name: str, sources: Sequence[Path]) -> str:
        """Links the objects of `sources`, which were compiled before, to a program in `out`.
        Returns its path."""
        program = str(self._out / name)
        objects = [self._made[source] for source in sources]
        if native.run([*self._command, "-o", program, *objects, "-pthread", "-ldl"]) != 0:
            raise SystemExit(f"fuzz: {name} does not link")
        return program


def programs(out: Path, sanitize: str, rounds: int) -> list[list[str]]:
    """Builds the fuzz targets (not for threads) and the C tests. Returns the commands that run
    them."""
    with native.object_folder(out, "objects") as folder:
        return build_programs(Compiler(out, folder, sanitize), sanitize, rounds)


def build_programs(compiler: Compiler, sanitize: str, rounds: int) -> list[list[str]]:
    core = native.sources(CORE_FOLDERS)
    helpers = sorted(p for p in C_TESTS.glob("*.c") if not p.name.startswith("test_"))
    targets = sorted(FUZZ.glob("fuzz_*.c")) if "address" in sanitize else []
    made_of = {target: [FUZZ / "driver.c", *SHARED, target, *core] for target in targets}
    for test in sorted(C_TESTS.glob("test_*.c")):
        made_of[test] = [test, *helpers, *SHARED, *core]
    compiler.compile(source for sources in made_of.values() for source in sources)
    return [
        [compiler.link(main.stem, sources), *(["--rounds", str(rounds)] if main in targets else [])]
        for main, sources in made_of.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sanitize", required=True, help="address,undefined, thread or none")
    parser.add_argument("--rounds", type=int, default=20000, help="mutated inputs a target")
    arguments = parser.parse_args()
    out = ROOT / "build" / arguments.sanitize.replace(",", "-")
    sanitize = "" if arguments.sanitize == "none" else arguments.sanitize
    if sanitize:
        native.Builder(out, sanitize, objects=out / "libraries").build_libraries()
    failed = 0
    for command in programs(out, sanitize, arguments.rounds):
        rc = subprocess.run(command, cwd=out, timeout=LIMIT_S).returncode
        if rc != 0:
            failed += 1
            print(f"fuzz: {Path(command[0]).name} failed ({rc}); see {out}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
