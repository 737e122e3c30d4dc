"""Runs the contrast suite with the preload library under the address and undefined sanitizers.

    sanitized_contrast.py [pytest arguments]

A sanitizer reports on a program's stderr, which the suite compares, so a report fails its case.
Works in a copy of the project, so that no other process loads the sanitized library.

The stack is not instrumented, because vfork children would leave marks on their parent's. Leaves
out cases in which the sanitizers themselves do not work: programs that are started without their
options or their library, with too little memory or stack, or with an allocator of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("csrc", "docs", "fanstore", "tests", "tools", "pyproject.toml")

CFLAGS = "-O1 --param asan-stack=0"
OPTIONS = {
    # The programs handle faults themselves here, and the preload library has a handler.
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:handle_segv=0:handle_sigbus=0:"
    "handle_sigfpe=0:handle_sigill=0:handle_abort=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
LEFT_OUT = (
    "nobody", "emptied_environment", "its_own_environment", "cleaned_environments",
    "subprocess_stdout", "static_program", "output_programs", "output_of_the_compiler", "tools-cc_",
    "memory_is_given_back", "low_limit_of_memory", "threads_with_16_kib", "jemalloc", "node-",
    "rust-",
)  # fmt: skip


def run(copy: Path, arguments: list[str]) -> int:
    """Builds and tests in `copy`. Returns pytest's exit code."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("*.so", "*.stamp"))
        else:
            shutil.copy2(source, copy / name)
    native = [sys.executable, str(copy / "tools" / "native.py")]
    environ = {**os.environ, "CFLAGS": CFLAGS}
    subprocess.run([*native, "--sanitize", "address,undefined"], env=environ, check=True)
    shutil.copy2(copy / "fanstore/_native/libfanstore_preload.so", copy)
    subprocess.run(native, check=True)  # the library for Python itself is built without sanitizers
    shutil.copy2(copy / "libfanstore_preload.so", copy / "fanstore/_native")
    pytest = [sys.executable, "-m", "pytest", "-q", "tests/contrast", *arguments]
    pytest += ["-k", " and ".join(f"not {name}" for name in LEFT_OUT)]
    # On some kernels, shadow memory does not work with random addresses.
    return subprocess.run(
        ["setarch", "-R", *pytest],
        cwd=copy, env={**os.environ, **OPTIONS, "PYTHONPATH": str(copy)}, check=False,
    ).returncode  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="fanstore-sanitized-") as directory:
        os.chmod(directory, 0o755)
        return run(Path(directory), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
