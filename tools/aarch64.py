"""Builds csrc for aarch64, and runs its tests in C under qemu-user.

    python tools/aarch64.py

The libraries go to build/aarch64/native, and an aarch64 root with a Python is unpacked beside them:
`make aarch64` then runs tests/contrast/test_aarch64.py, which runs programs of both. Tools that are
missing here are named; that is no failure. CC_AARCH64 and QEMU_AARCH64 name another compiler and
emulator.

qemu on x86_64 has that processor's memory order, so it does not reveal a missing barrier:
docs/memory-order.md says how those are checked."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path[:0] = [str(TOOLS), str(TOOLS / "fuzz")]
import debian_root  # noqa: E402
import native  # noqa: E402

import build  # noqa: E402

OUT = native.ROOT / "build" / "aarch64"
ROOT, LIBRARIES = OUT / "root", OUT / "native"
CC = os.environ.get("CC_AARCH64", "aarch64-linux-gnu-gcc")
QEMU = os.environ.get("QEMU_AARCH64", "qemu-aarch64")
PACKAGES = (
    "python3-minimal",
    "libpython3-stdlib",
    "libstdc++6",
    "liblz4-1",
    "libzstd1",
    "dash",
    "coreutils",
)
LIMIT_S = 600

# Features that qemu-user 7.2 lacks, and the tests that need them.
LEFT_OUT = {
    "test_decode": "RLIMIT_AS",
    "test_lanes": "MADV_WIPEONFORK, which it answers with success and ignores",
    "test_moved": "the socket option SO_PEEK_OFF",
    "test_names": "robust futexes, by which a killed writer is noticed",
}
# Tests that map files also run with the large pages that some kernels for aarch64 have.
LARGE_PAGE_BYTES = 65536
MAPPING = ("test_client", "test_code", "test_index", "test_outputs", "test_remote", "test_session")


def missing() -> str:
    """Returns a text that says which tools are missing here and how to install them; "" if none
    is."""
    absent = [name for name in (CC, QEMU, *debian_root.NEEDED) if shutil.which(name) is None]
    packages = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
    return f"{', '.join(absent)} not found (on Debian: {packages})" if absent else ""


def is_ready() -> bool:
    """Returns whether everything is there that aarch64 programs need to run."""
    return not missing() and LIBRARIES.exists() and ROOT.exists()


def emulated(page_bytes: int = 4096, **environment: str) -> list[str]:
    """Returns the words to put before an aarch64 program and its arguments."""
    settings = [word for item in environment.items() for word in ("-E", "=".join(item))]
    return [shutil.which(QEMU) or QEMU, "-p", str(page_bytes), "-L", str(ROOT), *settings]


def unpack_root() -> None:
    """Makes the root in which the programs run: Debian 12's."""
    debian_root.unpack(ROOT, "bookworm", "arm64", PACKAGES)


def build_libraries() -> None:
    """Builds the libraries, and unpacks the root for programs that use them."""
    os.environ["CC"] = CC
    OUT.mkdir(parents=True, exist_ok=True)
    native.Builder(LIBRARIES, objects=OUT / "objects").build_libraries()
    unpack_root()


def run_tests() -> list[str]:
    """Runs the tests in C. Returns the names of those that failed."""
    folder = OUT / "c"
    folder.mkdir(exist_ok=True)
    failed = []
    for (program,) in build.programs(folder, "", rounds=0):
        name = Path(program).name
        if name in LEFT_OUT:
            print(f"aarch64: {name} is left out: qemu lacks {LEFT_OUT[name]}", flush=True)
            continue
        for page_bytes in (4096, LARGE_PAGE_BYTES) if name in MAPPING else (4096,):
            command = [*emulated(page_bytes), program]
            rc = subprocess.run(command, cwd=folder, timeout=LIMIT_S).returncode
            if rc != 0:
                failed.append(f"{name} with pages of {page_bytes} bytes ({rc})")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    if missing():
        print(f"aarch64: skipped: {missing()}")
        return 0
    build_libraries()
    failed = run_tests()
    for line in failed:
        print(f"aarch64: failed: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
