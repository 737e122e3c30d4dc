"""A command that fills the local disk under its own job, and what its programs then see.

    full_disk_client.py DISK PLAIN

Prints, as JSON: by program how it ended and whether it found the bytes of PLAIN; what a writer got,
while the disk was full and when there was room again.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = 5


def same(path: str, plain: str) -> bool:
    """Whether a file reads and maps as its original."""
    whole = Path(plain).read_bytes()
    with open(path, "rb") as stream:
        read = stream.read()
        with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as view:
            return read == whole == view[:]


def look(root: str, plain: str) -> str:
    """Lists, looks at, reads and maps all that is there."""
    found = sorted(os.listdir(root))
    assert found == sorted(os.listdir(plain)), found
    for name in found:
        path, original = f"{root}/{name}", f"{plain}/{name}"
        if os.path.isdir(original):
            look(path, original)
            continue
        assert os.stat(path).st_size == os.stat(original).st_size, name
        assert same(path, original), name
    return "same"


def program(step: str, root: str, plain: str) -> None:
    """One program of the job, which goes on once it is told to."""
    if step == "opened":
        same(f"{root}/f00", f"{plain}/f00")
    print("ready", flush=True)
    sys.stdin.read()
    print(look(root, plain), flush=True)


def begin(step: str, root: str, plain: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--program", step, root, plain]
    process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> list[object]:
    """Lets it go on: how it ended, and what it said."""
    said = process.communicate()[0]
    return [process.returncode, said.strip()]


def fill(path: str) -> None:
    """Takes all the room there is, to the last byte."""
    with open(path, "wb", buffering=0) as stream:
        for piece in (1 << 20, 4096, 512, 1):
            with contextlib.suppress(OSError):
                while stream.write(bytes(piece)):
                    pass
        os.fsync(stream.fileno())


def write(path: str) -> str:
    """An output of 100 kB. What became of it."""
    try:
        Path(path).write_bytes(b"x" * 100_000)
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "written"


def main(disk: str, plain: str) -> None:
    root = os.environ["FANSTORE_MOUNT_PREFIX"]
    early = {step: begin(step, root, plain) for step in ("started", "opened")}
    fill(f"{disk}/filler")
    found = {step: end(process) for step, process in early.items()}
    late = [begin("late", root, plain) for _ in range(PROGRAMS)]
    found |= {f"late {n}": end(process) for n, process in enumerate(late)}
    full = write(f"{root}/output")
    os.unlink(f"{disk}/filler")
    print(json.dumps({"programs": found, "full": full, "again": write(f"{root}/output")}))


if __name__ == "__main__":
    program(*sys.argv[2:]) if sys.argv[1] == "--program" else main(*sys.argv[1:])
