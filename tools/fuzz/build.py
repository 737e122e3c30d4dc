"""Builds the fuzz targets and the C tests with sanitizers, and runs them. Standard library only.

    build.py --sanitize address,undefined --rounds 20000
    build.py --sanitize thread

Everything lies in build/<sanitizers>/. Both libraries are built there too, so that whatever the
sanitizers change about warnings is seen. Exit code 1 when one of the programs fails.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import native  # noqa: E402

FUZZ = ROOT / "tools" / "fuzz"
C_TESTS = ROOT / "tests" / "c"
SHARED = [FUZZ / "tree.c", FUZZ / "jobdir.c"]
CORE_FOLDERS = ("common", "pack", "client", "node")
LIMIT_S = 1800


def compile_program(program: Path, files: list[Path], sanitize: str) -> None:
    """One program from C files, the core's sources among them."""
    flags = ["-O1", *native.sanitizer_flags(sanitize)]
    if "undefined" in sanitize:
        flags.append("-fno-sanitize-recover=all")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, *native.COMMON_FLAGS, *flags, "-o", str(program)]
    if native.run([*command, *map(str, files), "-pthread", "-ldl"]) != 0:
        raise SystemExit(f"fuzz: {program.name} does not compile")


def programs(out: Path, sanitize: str, rounds: int) -> list[list[str]]:
    """Compiles the fuzz targets (not for threads) and the C tests; the commands to run them."""
    core = native.sources(CORE_FOLDERS)
    helpers = sorted(p for p in C_TESTS.glob("*.c") if not p.name.startswith("test_"))
    commands = []
    targets = [] if sanitize == "thread" else sorted(FUZZ.glob("fuzz_*.c"))
    for target in targets:
        program = out / target.stem
        files = [FUZZ / "driver.c", *SHARED, target, *core]
        compile_program(program, files, sanitize)
        commands.append([str(program), "--rounds", str(rounds)])
    for test in sorted(C_TESTS.glob("test_*.c")):
        program = out / test.stem
        compile_program(program, [test, *helpers, *SHARED, *core], sanitize)
        commands.append([str(program)])
    return commands


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sanitize", required=True, help="address,undefined or thread")
    parser.add_argument("--rounds", type=int, default=20000, help="mutated inputs a target")
    arguments = parser.parse_args()
    out = ROOT / "build" / arguments.sanitize.replace(",", "-")
    native.Builder(out, arguments.sanitize).build_libraries()
    failed = 0
    for command in programs(out, arguments.sanitize, arguments.rounds):
        rc = subprocess.run(command, cwd=out, timeout=LIMIT_S).returncode
        if rc != 0:
            failed += 1
            print(f"fuzz: {Path(command[0]).name} failed ({rc}); see {out}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
