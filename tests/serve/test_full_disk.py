"""A local disk that is full: no program of the job dies of it, inputs stay readable, writers hear
of it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from serving import LIMIT_S, Stage, make_stage
from small_disk import small_disk

from fanstore.errors import FanstoreError
from fanstore.node.segment import MountEntry, read_damaged, write_segment
from fanstore.outputs.tree.inputs import Inputs, touched_bitmaps

CLIENT = Path(__file__).resolve().parents[1] / "support" / "full_disk_client.py"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
NOBODY = 65534


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def public() -> Iterator[Stage]:
    """A stage in a directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="fanstore-full-", dir="/tmp") as path:
        os.chmod(path, 0o1777)
        yield make_stage(Path(path))


def plain_tree(stage: Stage) -> Path:
    """Stored and compressed files, small and large, two directories deep."""
    names = [f"{directory}f{n:02}" for directory in ("", "a/", "a/b/") for n in range(4)]
    sizes = [(n % 4) * 40_000 + 10 for n in range(len(names))]
    return stage.source(
        files={
            name: os.urandom(size) if n % 3 else os.urandom(10) * (size // 10)
            for n, (name, size) in enumerate(zip(names, sizes, strict=True))
        }
    )


@pytest.mark.parametrize(
    ("kind", "user"),
    [
        ("tmpfs", NOBODY),
        pytest.param("tmpfs", 0, marks=pytest.mark.soak),
        pytest.param("ext4", NOBODY, marks=pytest.mark.soak),
    ],
)
def test_programs_outlive_a_disk_that_fills_up(public: Stage, kind: str, user: int) -> None:
    """Programs that were there before, with the mount looked at and not, and new ones."""
    plain = plain_tree(public)
    dataset = public.dataset(plain, "data", "--codec", "lz4")
    before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    with small_disk(public.local, "8m", kind):
        os.chmod(public.local, 0o1777)
        where = ["--dataset", str(dataset), "--mount", str(public.mount), "--output-dir"]
        client = [PYTHON, str(CLIENT), str(public.local), str(plain)]
        done = subprocess.run(
            [*before, sys.executable, "-m", "fanstore", "run", *where, str(public.path / "out"),
             "--", *client],
            env={**public.env, "USER": f"user{user}"}, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        wrong = {name: end for name, end in found["programs"].items() if end != [0, "same"]}
        assert wrong == {}, done.stderr
        assert found["full"] == os.strerror(errno.ENOSPC)
        assert found["again"] == "written"
    assert (public.path / "out" / "output").read_bytes() == b"x" * 100_000


def test_a_disk_that_is_full_at_the_start_is_named(stage: Stage) -> None:
    dataset = stage.dataset()
    with small_disk(stage.local):
        (stage.local / "filler").write_bytes(bytes((1 << 20) - 8192))
        done = stage.run(dataset, "true", options=("--in-place",), code=125)
        assert "segment" in done.stderr and "are needed" in done.stderr, done.stderr
        assert "are free: No space left on device" in done.stderr, done.stderr
        (stage.local / "filler").unlink()
        assert stage.leftovers() == []


LOSE_COUNTERS = """
import os, sys
root, segment = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["FANSTORE_JOB_DIR"] + "/segment"
names = sorted(os.listdir(root))
whole = {name: open(f"{root}/{name}", "rb").read() for name in names[1:]}
size = os.stat(segment).st_size
os.truncate(segment, size // 4096 * 4096 - 8192)
again = {name: open(f"{root}/{name}", "rb").read() for name in names[1:]}
more = open(f"{root}/{names[0]}", "rb").read()
os.truncate(segment, size)
child = os.fork()
if child == 0:
    os._exit(open(f"{root}/{names[0]}", "rb").read() != more)
print(again == whole, len(more), os.waitpid(child, 0)[1])
"""


def test_a_segment_that_cannot_be_written_ends_counting_alone(stage: Stage) -> None:
    """As where a file system writes each page to a new place and has none left."""
    dataset = stage.dataset()
    done = stage.run(dataset, sys.executable, "-c", LOSE_COUNTERS)
    assert done.stdout.split() == ["True", "1000", "0"], done.stderr


WITHOUT_MEMORY = """
import os
root = os.environ["FANSTORE_MOUNT_PREFIX"]
held = [os.open(f"{root}/f{n:02}", os.O_RDONLY) for n in range(20)]
(arena,) = [
    path for path in (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    if os.path.lexists(path) and "fanstore-slots" in os.readlink(path)
]
size = os.stat(arena).st_size
os.truncate(arena, 4096)
try:
    while len(held) < 200:
        held.append(os.open(f"{root}/f01", os.O_RDONLY))
    print("no error")
except OSError as error:
    print(error.strerror)
print(len(held) < 70, all(os.pread(fd, 1, 0) == bytes([n]) for n, fd in enumerate(held[:20])))
os.truncate(arena, size)
print(os.read(os.open(f"{root}/f01", os.O_RDONLY), 1))
"""


def test_no_memory_for_a_slot_is_an_error_of_open(stage: Stage) -> None:
    """The arena is cut off, as memory that cannot be had looks like to who stores there."""
    done = stage.run(stage.dataset(), sys.executable, "-c", WITHOUT_MEMORY)
    assert done.stdout.splitlines() == [os.strerror(errno.ENFILE), "True True", "b'\\x01'"]


def test_the_daemon_stores_into_no_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it tells its clients goes by write(2), which says that a disk is full."""
    path = str(tmp_path / "segment")
    entry = MountEntry("/m", "", "/m", "/i", "/s", "/d", 1, 1000, True, [0, 0, 0], {1: [3]})
    write_segment(path, [entry], os.getpid())
    assert os.stat(path).st_blocks * 512 >= os.stat(path).st_size
    assert read_damaged(path, 0) == [3]

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    no_dataset: Any = None
    with FileIO(path, "r+") as segment:
        (touched_at,) = touched_bitmaps(segment)
        inputs = Inputs(no_dataset, [b"/m"], segment, touched_at)
        inputs.touch(999)
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            inputs.touch(5)
        bits = os.pread(segment.fileno(), 125, touched_at)
        assert bits == bytes(124) + b"\x80"


def test_a_segment_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with small_disk(tmp_path):
        path = str(tmp_path / "segment")
        entry = MountEntry("/m", "", "/m", "/i", "/s", "/d", 1, 10_000_000, True, [0])
        with pytest.raises(FanstoreError, match=r"segment: 5\.\d MiB .* are needed .*are free"):
            write_segment(path, [entry], os.getpid())


def test_a_log_that_the_disk_does_not_take_ends_no_daemon(tmp_path: Path) -> None:
    says = "print('told', file=sys.stderr, flush=True); os.write(1, b'goes on')"
    code = f"import os, sys; from fanstore.node.process import log_to; log_to(sys.argv[1]); {says}"
    for log in ("/dev/full", f"{tmp_path}/missing/log", f"{tmp_path}/log"):
        done = subprocess.run(
            [sys.executable, "-c", code, log], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "goes on", ""), log
    assert (tmp_path / "log").read_text() == "told\n"
