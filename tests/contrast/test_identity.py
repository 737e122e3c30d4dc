"""What tells files apart is the same in every process, run and mount of a dataset; and offsets
beyond 4 GiB, of which a sparse file is packed.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import read_tree
from arena import SELF, fanstore_command

pytestmark = pytest.mark.skipif(SELF, reason="there is no FanStore to look at")

GIB = 1 << 30
PLACES = (0, 4 * GIB - 3, 4 * GIB + 5, 4 * GIB + 4090)
LOOK = """
import json, os, sys
found = {}
for folder, folders, files in os.walk(sys.argv[1]):
    listed = {entry.name: entry.inode() for entry in os.scandir(folder)}
    for name in (".", *folders, *files):
        path = os.path.join(folder, name)
        status = os.lstat(path)
        assert listed.get(name, status.st_ino) == status.st_ino, path
        found[os.path.relpath(path, sys.argv[1])] = [status.st_ino, status.st_dev]
json.dump(found, sys.stdout)
"""
FAR = """
import mmap, os, sys
path, *places = sys.argv[1:]
fd = os.open(path, os.O_RDONLY)
print(os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END))
for place in map(int, places):
    print(os.pread(fd, 8, place), os.lseek(fd, place, 0), os.read(fd, 4), os.lseek(fd, 0, 1))
with open(path, "rb") as file:
    file.seek(int(places[2]))
    print(file.read(3), file.tell())
view = mmap.mmap(fd, 4096, prot=mmap.PROT_READ, offset=4 << 30)
print(view[:16], view[4086:])
r, w = os.pipe()
print(os.sendfile(w, fd, int(places[2]), 4), os.read(r, 9))
"""


def dataset_of(source: Path, name: str, *options: str) -> Path:
    """A dataset beside its source."""
    made = source.parent / name
    subprocess.run(
        [*fanstore_command(), "prepare", str(source), str(made), *options],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return made


def run(dataset: Path, mount: Path, *command: str) -> str:
    """What a command prints in a job of its own."""
    local = mount.parent / "local"
    local.mkdir(exist_ok=True, mode=0o700)
    served = ["--dataset", str(dataset), "--mount", str(mount), "--local-dir", str(local)]
    done = subprocess.run(
        [*fanstore_command(), "run", "--quiet", *served, "--", *command],
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), done
    return done.stdout.decode()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a tree with hard links."""
    source = tmp_path_factory.mktemp("identity") / "source"
    read_tree.build(str(source))
    os.link(source / "small", source / "sub" / "one more name")
    return dataset_of(source, "dataset")


def test_numbers_stay(dataset: Path) -> None:
    """Two runs, and two processes of each; only names of one file share a number."""
    mount = dataset.parent / "mount"
    look = shlex.join([sys.executable, "-c", LOOK, str(mount)])
    script = f"{look} && echo && {look}"
    said = [run(dataset, mount, "sh", "-c", script).split("\n") for _ in range(2)]
    one, *others = [json.loads(text) for texts in said for text in texts if text]
    assert others == [one, one, one]
    assert len({device for _, device in one.values()}) == 1
    names: dict[int, set[str]] = {}
    for name, (inode, _) in one.items():
        names.setdefault(inode, set()).add(name)
    assert [shared for shared in names.values() if len(shared) > 1] == [
        {"small", "sub/one more name"}
    ]


def test_numbers_do_not_depend_on_the_mount(dataset: Path) -> None:
    script = ("-c", LOOK)
    first, second = (
        json.loads(run(dataset, mount, sys.executable, *script, str(mount)))
        for mount in (dataset.parent / "mount", dataset.parent / "elsewhere")
    )
    inodes = {name: inode for name, (inode, _) in first.items()}
    assert inodes == {name: inode for name, (inode, _) in second.items()}


@pytest.mark.soak
def test_offsets_beyond_4_gib(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with open(source / "far", "wb") as file:
        for place in PLACES:
            file.seek(place)
            file.write(b"mark %d" % (place % 7))
        file.truncate(4 * GIB + 70_000)
    far = ["-c", FAR]
    places = [str(place) for place in PLACES]
    made = dataset_of(source, "dataset", "--codec", "zstd")
    plain = subprocess.run(
        [sys.executable, *far, str(source / "far"), *places], capture_output=True, check=True
    )
    mount = tmp_path / "mount"
    served = run(made, mount, sys.executable, *far, str(mount / "far"), *places)
    assert served == plain.stdout.decode()
