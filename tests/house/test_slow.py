"""tools/slow: a directory as a slow shared file system shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from epochs_figure import drawing, table
from serving import wait_for
from slow import SlowTree, parse_curve, parse_latency, rates_by_readers
from slow_tree import needs_fuse
from soak import one_of

TOOL = Path(__file__).resolve().parents[2] / "tools" / "slow" / "slow.py"
LIMIT_S = 60

# Prints all that a program can see of a tree.
LOOK = r"""
import hashlib, mmap, os, sys
os.chdir(sys.argv[1])
def told(call, *given):
    try:
        return call(*given)
    except OSError as error:
        return error.errno
def content(path):
    with open(path, "rb") as file:
        read = file.read()
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:] if read else b""
        parts = os.pread(file.fileno(), 100, len(read) // 2), os.pread(file.fileno(), 9, 1 << 40)
    return hashlib.sha256(read).hexdigest(), mapped == read, parts
def seen(path):
    s = os.lstat(path)
    owner = s.st_mode, s.st_nlink, s.st_uid, s.st_gid, s.st_rdev
    return owner, s.st_ino, s.st_size, s.st_blocks, s.st_mtime_ns, s.st_ctime_ns
for directory, folders, files in os.walk(b"."):
    folders.sort()
    for name in sorted([*folders, *files]):
        path = os.path.join(directory, name)
        print(path, seen(path), told(os.readlink, path), told(os.listdir, path) is None)
        if not os.path.isfile(path):
            continue
        print(told(content, path))
for path in (b"none", b"none/below", b"big/below", b"n" * 256, b"loop", b"folder/../big", b"big/"):
    print(path, told(os.stat, path) if told(os.stat, path).__class__ is int else "there")
print(sorted(os.listdir(b"many")) == sorted(entry.name for entry in os.scandir(b"many")))
"""

# Writes, and prints what it sees meanwhile.
CHANGE = r"""
import os, sys, tempfile
os.chdir(sys.argv[1])
def told(call, *given, **named):
    try:
        return call(*given, **named)
    except OSError as error:
        return error.errno
with open("new", "wb") as file:
    file.write(b"a" * 3_000_000)
    file.seek(5)
    file.write(b"b")
with open("new", "ab") as file:
    file.write(b"end")
os.truncate("new", 2_000_000)
os.chmod("new", 0o640)
os.utime("new", ns=(10**18, 10**18 + 1))
print(os.stat("new"). st_mtime_ns, oct(os.stat("new").st_mode), os.stat("new").st_size)
os.mkdir("made"), os.mkdir("made/inner"), os.symlink("../new", "made/link")
print(told(os.rmdir, "made"), told(os.mkdir, "made"), told(os.unlink, "none"))
with open("made/inner/old", "w+") as old, open("made/inner/fresh", "w+") as fresh:
    old.write("old"), fresh.write("fresh"), old.flush(), fresh.flush()
    os.rename("made/inner", "made/moved")
    os.rename("made/moved/fresh", "made/moved/old")
    print(os.fstat(old.fileno()).st_size, os.fstat(fresh.fileno()).st_size, os.listdir("made"))
    old.seek(0), fresh.seek(0)
    print(old.read(), fresh.read(), open("made/moved/old").read())
    os.unlink("made/moved/old")
    print(os.fstat(fresh.fileno()).st_nlink, os.listdir("made/moved"))
    os.ftruncate(fresh.fileno(), 2)
    print(os.fstat(fresh.fileno()).st_size, told(os.stat, "made/moved/old"))
with tempfile.TemporaryFile(dir=".") as file:
    file.write(b"kept"), file.flush(), file.seek(0)
    print(file.read())
os.mkdir("gone")
fd = os.open("gone", os.O_RDONLY)
os.rmdir("gone"), os.mkdir("gone"), open("gone/file", "w").close()
print(told(os.stat, "file", dir_fd=fd))
"""


def build(root: Path) -> Path:
    """A tree with the names and kinds of files that a server may get wrong."""
    (root / "folder" / "inner").mkdir(parents=True)
    (root / "many").mkdir()
    for number in range(300):
        (root / "many" / f"{number:03}-{'x' * (number % 250)}").touch()
    (root / "big").write_bytes(os.urandom(5_000_001))
    (root / "empty").touch()
    with open(root / "sparse", "wb") as file:
        file.truncate(50_000_000)
    for name in (b"n" * 255, b"\xff\xfe not utf-8", b"new\nline", " ä ".encode(), b"-"):
        Path(root / "folder" / os.fsdecode(name)).write_bytes(name)
    os.link(root / "empty", root / "folder" / "second")
    os.mkfifo(root / "pipe")
    for name, target in {"link": "big", "loop": "loop", "far": "/none", "dir": "folder"}.items():
        (root / name).symlink_to(target)
    (root / "closed").write_text("mode")
    (root / "closed").chmod(0)
    os.utime(root / "big", ns=(1, 123456789_123456789))
    return root


def output_of(script: str, root: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    return done.stdout


def read_all(path: Path) -> int:
    with open(path, "rb", buffering=0) as file:
        return sum(len(part) for part in iter(lambda: file.read(1 << 16), b""))


@needs_fuse
@pytest.mark.parametrize("options", one_of(3, [{}, {"cache_s": 0.0}, {"direct": True}]))
def test_it_shows_what_is_there(tmp_path: Path, options: dict[str, Any]) -> None:
    source = build(tmp_path / "source")
    wanted = output_of(LOOK, source)
    with SlowTree(source, tmp_path / "mount", **options) as mount:
        found = [output_of(LOOK, mount) for _ in range(2)]
    assert found == [wanted, wanted]


@needs_fuse
def test_a_mount_over_its_source(tmp_path: Path) -> None:
    source = build(tmp_path / "source")
    wanted = output_of(LOOK, source)
    with SlowTree(source, source):
        assert os.path.ismount(source)
        assert output_of(LOOK, source) == wanted
    assert not os.path.ismount(source)


@needs_fuse
def test_changes_have_the_same_end(tmp_path: Path) -> None:
    plain, source = tmp_path / "plain", tmp_path / "source"
    plain.mkdir()
    source.mkdir()
    wanted = output_of(CHANGE, plain)
    with SlowTree(source, tmp_path / "mount", writable=True) as mount:
        assert output_of(CHANGE, mount) == wanted
    listed = [
        sorted((str(p.relative_to(root)), p.is_dir() or p.read_bytes()) for p in root.rglob("*"))
        for root in (plain, source)
    ]
    assert listed[0] == listed[1]


@needs_fuse
def test_it_is_read_only_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with SlowTree(tmp_path / "source", tmp_path / "mount") as mount, pytest.raises(OSError) as told:
        (mount / "new").touch()
    assert told.value.strerror == "Read-only file system"


@needs_fuse
@pytest.mark.parametrize(("direct", "times"), [(True, 2), (False, 1)])
def test_content_is_kept_while_the_file_is_unchanged(
    tmp_path: Path, direct: bool, times: int
) -> None:
    """And no longer than the mount."""
    file = tmp_path / "source" / "file"
    file.parent.mkdir()
    file.write_bytes(bytes(500_000))
    tree = SlowTree(file.parent, tmp_path / "mount", direct=direct)
    with tree as mount, open(mount / "file", "rb", buffering=0):  # one who has it open all the time
        assert [read_all(mount / "file") for _ in range(2)] == [500_000, 500_000]
        assert tree.counts()["read"].bytes == times * 500_000
        # As the program asked, and not at the file's end; else as the kernel reads ahead.
        assert not direct or tree.counts()["read"].calls == 2 * 8
    with tree as mount:
        assert read_all(mount / "file") == 500_000
    assert tree.counts()["read"].bytes == (times + 1) * 500_000


@needs_fuse
@pytest.mark.parametrize("cache_s", [0.0, 0.1])
def test_a_change_below_is_seen(tmp_path: Path, cache_s: float) -> None:
    file = tmp_path / "source" / "file"
    file.parent.mkdir()
    file.write_text("before")
    with SlowTree(file.parent, tmp_path / "mount", cache_s=cache_s) as mount:
        assert (mount / "file").read_text() == "before"
        assert not (mount / "other").exists()
        time.sleep(2 * cache_s)
        file.write_text("after: longer")
        (file.parent / "other").touch()
        assert (mount / "file").read_text() == "after: longer"
        assert (mount / "other").exists()


@needs_fuse
def test_64_calls_wait_at_a_time_and_end_with_the_mount(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    ends: list[str] = []

    def look(number: int) -> None:
        try:
            os.stat(mount / f"{number}")
        except OSError as error:
            ends.append(error.strerror)

    tree = SlowTree(tmp_path / "source", tmp_path / "mount", latency_s={"lookup": 1000.0})
    with tree as mount:
        threads = [threading.Thread(target=look, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        wait_for(lambda: tree.counts()["lookup"].calls == 64, "64 calls")
        assert ends == []
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(ends) == 64 and "No such file or directory" not in ends


@needs_fuse
def test_each_call_takes_its_latency(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("text")
    latency_s = {"lookup": 0.1, "open": 0.2, "read": 0.3}
    tree = SlowTree(tmp_path / "source", tmp_path / "mount", latency_s=latency_s)
    with tree as mount:
        begin_s = time.monotonic()
        (mount / "file").read_text()
        assert time.monotonic() - begin_s >= 0.6
        calls = {kind: count.calls for kind, count in tree.counts().items()}
    assert (calls["lookup"], calls["open"], calls["read"]) == (1, 1, 1)


@needs_fuse
@pytest.mark.parametrize(
    ("readers", "least_s", "rates"),
    [
        (1, 0.5, {"stream_bytes_per_s": 4e6}),
        (2, 0.5, {"stream_bytes_per_s": 4e6}),
        (2, 1.0, {"total_bytes_per_s": 4e6}),
        (2, 0.5, {"total_bytes_per_s": {1: 4e6, 2: 8e6}}),
        (4, 0.8, {"total_bytes_per_s": {1: 4e6, 4: 10e6}, "stream_bytes_per_s": 8e6}),
    ],
)
def test_rates_are_kept(
    tmp_path: Path, readers: int, least_s: float, rates: dict[str, Any]
) -> None:
    (tmp_path / "source").mkdir()
    for number in range(readers):
        (tmp_path / "source" / f"{number}").write_bytes(bytes(2_000_000))
    tree = SlowTree(tmp_path / "source", tmp_path / "mount", **rates)
    with tree as mount:
        begin_s = time.monotonic()
        threads = [
            threading.Thread(target=read_all, args=(mount / f"{n}",)) for n in range(readers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert time.monotonic() - begin_s >= least_s
        assert tree.counts()["read"].bytes == readers * 2_000_000


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("0", [0]), ("2k", [2e3]), ("1:100,3:300,7:500", [100, 200, 300, 350, 400, 450, 500]),
        ("2:10M", [1e7, 1e7]),
    ],
)  # fmt: skip
def test_the_rate_is_linear_between_points(text: str, rates: list[float]) -> None:
    assert rates_by_readers(parse_curve(text)) == rates


@pytest.mark.parametrize("text", ["fast", "1:", "0:20", "1:10;2:20", "2:0", "1:10,x", "5m", "-1"])
def test_rates_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        rates_by_readers(parse_curve(text))


def test_latencies_by_kind(tmp_path: Path) -> None:
    found = parse_latency("1ms,read=20us,open=2s")
    assert (found["lookup"], found["read"], found["open"]) == (0.001, 20 * 1e-6, 2.0)
    with pytest.raises(ValueError, match="close"):
        SlowTree(tmp_path, tmp_path, latency_s=parse_latency("1ms,close=1ms"))


def test_a_mount_in_its_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lies in its source"):
        SlowTree(tmp_path, tmp_path / "mount")


def start(tmp_path: Path, *command: str) -> subprocess.Popen[str]:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(bytes(1000))
    words = [sys.executable, str(TOOL), str(tmp_path / "source"), str(tmp_path / "mount")]
    return subprocess.Popen(
        [*words, "--counts", str(tmp_path / "counts"), "--", *command], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, cwd=tmp_path,
    )  # fmt: skip


@needs_fuse
def test_a_command_ends_with_its_exit_code(tmp_path: Path) -> None:
    tool = start(tmp_path, "sh", "-c", "cat mount/file | wc -c; exit 3")
    said, told = tool.communicate(timeout=LIMIT_S)
    assert (said.strip(), tool.returncode) == ("1000", 3)
    assert not os.path.ismount(tmp_path / "mount")
    counts = json.loads((tmp_path / "counts").read_text())
    assert counts["read"] == {"calls": 1, "bytes": 1000}
    assert "slow: read " in told and "1,000 bytes" in told


@needs_fuse
@pytest.mark.parametrize(
    ("number", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, False)]
)
def test_a_signal_ends_the_mount(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    """Also while a program has its working directory there; Ctrl-C comes to all of a terminal."""
    mount = tmp_path / "mount"
    tool = start(tmp_path, "sh", "-c", "cd mount && touch ../begun && exec sleep 1000")
    wait_for(lambda: (tmp_path / "begun").exists(), "the command")
    assert os.path.ismount(mount)
    tool.send_signal(signal.SIGUSR1)
    wait_for(lambda: (tmp_path / "counts").exists(), "the counts")
    (os.killpg if group else os.kill)(tool.pid, number)
    tool.wait(LIMIT_S)
    wait_for(lambda: not os.path.ismount(mount), "the end of the mount")
    assert tool.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGKILL:
        os.killpg(tool.pid, signal.SIGTERM)
    tool.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--latency", "5", "--", "true"], "invalid parse_latency value: '5'"),
        (["--latency", "close=5ms", "--", "true"], "no kind of call: close"),
        (["--total", "0:5M", "--", "true"], "no rates by readers"),
        (["--total", "5M"], "there is no command"),
    ],
)
def test_wrong_words_are_refused(tmp_path: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, TOOL, tmp_path, tmp_path, *words], capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 2 and said in done.stderr


def test_the_figure_and_the_table_of_epochs_show_the_results() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    report = json.loads((docs / "performance" / "epochs.json").read_text())
    assert (docs / "performance" / "epochs.svg").read_text() == drawing(report)
    assert table(report) in (docs / "why.md").read_text()
