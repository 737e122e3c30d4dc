"""Tries an installed wheel: the first job of the README, then a job of one rank and one of two,
which load the transport in the wheel. python release_trial.py DIRECTORY"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
TRAIN = """
import hashlib, os, pathlib, sys
root = pathlib.Path(sys.argv[-1])
content = b"".join(path.read_bytes() for path in sorted(root.glob("file-*")))
(root / f"checkpoint-{os.getpid()}").write_bytes(content)
print(hashlib.sha256(content).hexdigest())
"""


def first_job() -> str:
    """Returns the first job of the README, a line for the shell. It reads ~/data/imagenet."""
    found = re.search(r"^    (fanstore run .*)$", README.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{README} shows no job")
    return found[1]


def jobs(home: Path) -> Iterator[tuple[int, list[str | Path]]]:
    """Yields commands that run jobs, each with the number of its ranks. They write to
    fanstore-output, as the README's does."""
    yield 1, ["sh", "-c", first_job()]
    dataset, mount = home / "imagenet.fan", home / "mount"
    prepare = ["fanstore", "prepare", "--quiet", "--partitions", "4"]
    subprocess.run([*prepare, home / "data" / "imagenet", dataset], check=True)
    for ranks in (1, 2):
        local = home / "local" / ("{rank}" if ranks > 1 else "1")
        several = ["mpiexec", "-n", "2"] if ranks > 1 else []
        run = [*several, "fanstore", "run", "--quiet", "--dataset", dataset, "--mount", mount]
        run += ["--local-dir", local, "--output-dir", "fanstore-output"]
        yield ranks, [*run, "--", "python", "train.py", mount]


def main() -> None:
    home = Path(sys.argv[1])
    if shutil.which("cc") or shutil.which("gcc"):
        raise SystemExit("there is a compiler on PATH; this shows nothing")
    os.environ["HOME"] = str(home)
    source, outputs = home / "data" / "imagenet", home / "fanstore-output"
    source.mkdir(parents=True)
    contents = [os.urandom(3000 + number) for number in range(100)]
    for number, content in enumerate(contents):
        (source / f"file-{number:03}").write_bytes(content)
    expected = hashlib.sha256(b"".join(contents)).hexdigest()
    (home / "train.py").write_text(TRAIN)
    for ranks, command in jobs(home):
        shutil.rmtree(outputs, ignore_errors=True)
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, cwd=home)
        if done.returncode != 0 or done.stdout.split() != [expected] * ranks:
            raise SystemExit(f"{command}: exit code {done.returncode}, {done.stdout}")
        if len(list(outputs.iterdir())) != ranks:
            raise SystemExit(f"{command}: what it wrote is not in {outputs}")
        print(f"trial: {' '.join(map(str, command))}: everything was read and written")


if __name__ == "__main__":
    main()
