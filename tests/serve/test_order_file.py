"""--order FILE: what it names is there before it is read; a wrong one costs nothing but that."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from mpiexec import needs_ranks
from ranks import RankStage, make_rank_stage
from serving import make_stage, wait_for

from fanstore.arrays import np
from fanstore.dataset import open_dataset
from fanstore.errors import UsageError
from fanstore.foresight.followed import Course
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order_file import read_order
from fanstore.foresight.sink import Sink
from fanstore.job.jobs import ask_status, find_jobs
from fanstore.messages.message import encode

COUNT = 60


def files_of(count: int, size: int) -> dict[str, bytes]:
    return {f"f{n:03}": bytes([n % 251]) * (size + n) for n in range(count)}


FILES = files_of(COUNT, 30_000)

# Reads all files, from the last to the first of the sorted names if `back` is given, once the node
# has nothing under way; says what the node did until then and in the end.
READ = """
import json, os, sys, time
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
root = os.environ["FANSTORE_MOUNT_PREFIX"]
def status():
    return encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))
wanted = int(sys.argv[1])
end = time.monotonic() + 60
while time.monotonic() < end:
    node = status()["node"]
    if node["ahead"] >= wanted and not node["outstanding"]:
        break
    time.sleep(0.02)
names = sorted(os.listdir(root), reverse="back" in sys.argv)
bad = [n for n in names if open(os.path.join(root, n), "rb").read() !=
       bytes([int(n[1:]) % 251]) * (int(sys.argv[3]) + int(n[1:]))]
found, is_wrong = None, "back" in sys.argv
while time.monotonic() < end:
    found = status()
    order = found["order"]
    if order["broken"] or (order["predicted"] > len(names) // 2 and not is_wrong):
        break
    for name in names if is_wrong else []:
        open(os.path.join(root, name)).close()
        time.sleep(0.001)
with open(sys.argv[2] + os.environ["FANSTORE_RANK"], "w") as out:
    json.dump({"before": node, "after": found, "bad": bad}, out)
"""


# Reads nothing; says what the node has once it brings no more.
WINDOW = """
import json, os, sys, time
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
def node():
    return encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["node"]
before, now = node(), None
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.3)
    before, now = now, node()
    if before and now["ahead"] == before["ahead"] > 0 and not now["outstanding"]:
        break
with open(sys.argv[1] + os.environ["FANSTORE_RANK"], "w") as out:
    json.dump(now, out)
"""


def order_file(path: Path, *epochs: list[str]) -> Path:
    path.write_text("\n\n".join("\n".join(epoch) for epoch in epochs))
    return path


@needs_ranks
@pytest.mark.soak
def test_what_it_names_is_there_before_it_is_read(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 2)
    said = run(stage, tmp_path, FILES, "30000")
    for rank in said:
        assert rank["bad"] == []
        assert rank["before"]["ahead"] > 0
        assert rank["after"]["counters"]["cache_misses"] == 0
        assert rank["after"]["node"]["ahead_late"] == 0
        order = rank["after"]["order"]
        assert order["predicted"] > COUNT // 2 and order["strange"] == 0


@needs_ranks
def test_a_wrong_order_is_dropped(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 2)
    said = run(stage, tmp_path, files_of(600, 10), "10", "back")
    for rank in said:
        assert rank["bad"] == []
        assert rank["after"]["order"]["broken"] == 1


@pytest.mark.soak
@needs_ranks
def test_short_files_take_no_more_room_than_long_ones(tmp_path: Path) -> None:
    """A block takes whole granules, so that 10 bytes are 4,096 of the room for what is ahead."""
    stage = make_rank_stage(tmp_path, 2)
    files = files_of(5000, 10)
    dataset = stage.dataset(stage.source(files=files))
    order = order_file(tmp_path / "order", sorted(files))
    command = [sys.executable, "-c", WINDOW, str(tmp_path / "said-")]
    options = ["--order", str(order), "--cache-bytes", "10MiB", "--cache-policy", "close"]
    stage.run_ranks(2, dataset, *command, options=options)
    for rank in range(2):
        node = json.loads((tmp_path / f"said-{rank}").read_text())
        assert 0 < node["peak_resident_bytes"] <= node["cache_bytes"] // 2


def run(stage: RankStage, place: Path, files: dict[str, bytes], *how: str) -> list[dict[str, Any]]:
    """What both ranks say of a job in which READ runs; the order is that of the names. Each rank
    has one of two packs."""
    dataset = stage.dataset(stage.source(files=files))
    with open_dataset(dataset) as packed:
        remote = min(len(list(packed.records_of_pack(pack))) for pack in (0, 1))
    order, out = order_file(place / "order", sorted(files)), place / "said-"
    wanted = 0 if "back" in how else remote
    command = [sys.executable, "-c", READ, str(wanted), str(out), *how]
    done = stage.run_ranks(2, dataset, *command, options=["--order", str(order)])
    known = re.search(r"order of reading known for (\S+) % of opens \(the file of", done.stderr)
    assert known is not None and ("wrong in 2 epochs" in done.stderr) is ("back" in how)
    stage.assert_clean()
    return [json.loads((place / f"said-{rank}").read_text()) for rank in range(2)]


def test_what_is_to_be_kept_here_comes_to_the_disk(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    dataset = stage.dataset(stage.source(files=FILES))
    order = order_file(tmp_path / "order", sorted(FILES)[:20])
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "lazy"]
    stage.call("start", *where, "--order", str(order))
    try:
        (job,) = find_jobs(str(stage.local))
        wait_for(lambda: encode(ask_status(job))["node"]["kept_records"] >= 20, "files to be kept")
    finally:
        stage.call("stop")


def test_one_node_that_has_all_follows_it_too(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    dataset = stage.dataset(stage.source(files=FILES))
    order = order_file(tmp_path / "order", sorted(FILES))
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--order", str(order)]
    done = stage.call("run", *where, "--", "sh", "-c", f"cat {shlex.quote(str(stage.mount))}/*")
    assert "order of reading known for 100.0 % of opens (the file of --order)" in done.stderr


# What such a file says.


@pytest.fixture
def mounts(tmp_path: Path) -> list[Any]:
    stage = make_stage(tmp_path)
    files = {"a": b"1", "d/b": b"2", "new\nline": b"3", "back\\slash": b"4"}
    dataset = stage.dataset(stage.source(files=files))
    os.symlink("a", stage.path / "plain" / "link")
    other = stage.dataset(stage.source("plain2", {"a": b"5"}), "other")
    return [("/mnt/one", open_dataset(dataset)), ("/mnt/two", open_dataset(other))]


def names_of(dataset: Any, records: Any) -> list[bytes]:
    return [dataset.relpath(int(record)) for record in records]


def test_epochs_and_odd_names(tmp_path: Path, mounts: list[Any]) -> None:
    (tmp_path / "o").write_bytes(b"\n\na\n./d//b\n\n\n\nnew\\nline\nback\\\\slash\na")
    found = read_order(str(tmp_path / "o"), mounts[:1])
    assert list(found) == [0]
    epochs = [names_of(mounts[0][1], next(found[0]).records) for _ in range(4)]
    last = [b"new\nline", b"back\\slash", b"a"]
    assert epochs == [[b"a", b"d/b"], last, last, last]


def test_several_datasets(tmp_path: Path, mounts: list[Any]) -> None:
    (tmp_path / "o").write_bytes(b"/mnt/one/d/b\n/mnt/two/a\n\n/mnt/one/a\n")
    found = read_order(str(tmp_path / "o"), mounts)
    assert [names_of(mounts[0][1], next(found[0]).records) for _ in range(3)] == [
        [b"d/b"], [b"a"], [b"a"]
    ]  # fmt: skip
    assert names_of(mounts[1][1], next(found[1]).records) == [b"a"]


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        (b"", 1, "names no file; it has a path a line"),
        (b"\n\n\n", 1, "names no file"),
        (b"a\nmissing\n", 1, "line 2: missing is not in the dataset"),
        (b"a\n\nd\n", 1, "line 3: d is no regular file"),
        (b"../a\n", 1, "line 1: ../a is not in the dataset"),
        (b"/mnt/three/a\n", 2, "line 1: /mnt/three/a is in none of /mnt/one, /mnt/two"),
        (b"a\n", 2, "paths begin with a mount prefix"),
        (b"back\\slash\n", 1, r"line 1: \ stands before n or \ alone"),
        (b"a\r\nb\r\n", 1, r"line 1: a\r is not in the dataset"),
        (b"\x1b[31m\xff\n", 1, r"line 1: \x1b[31m\xff is not in the dataset"),
        (b"x" * 1_000_000, 1, "line 1: " + "x" * 300 + "... is not in the dataset"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path, mounts: list[Any], text: bytes, count: int, message: str
) -> None:
    (tmp_path / "o").write_bytes(text)
    with pytest.raises(UsageError) as caught:
        read_order(str(tmp_path / "o"), mounts[:count])
    assert message in str(caught.value)


def test_what_cannot_be_begins_no_job(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    dataset = stage.dataset(stage.source(files={"a": b"1"}))
    where = ["--dataset", str(dataset), "--mount", str(stage.mount)]
    ran = ["--", "touch", str(tmp_path / "ran")]
    done = stage.call("run", *where, "--order", str(tmp_path / "none"), *ran, code=125)
    assert f"--order: there is no file {tmp_path}/none" in done.stderr
    order = order_file(tmp_path / "order", ["b"])
    done = stage.call("run", *where, "--order", str(order), "--stage", "lazy", *ran, code=125)
    assert f"--order {order}, line 1: b is not in the dataset" in done.stderr
    done = stage.call("run", *where, "--order", str(order), "--trace", "off", *ran, code=125)
    assert "--order needs a trace, and --trace says off" in done.stderr
    done = stage.call("run", *where, "--order", str(order), "--in-place", *ran, code=125)
    assert "--order brings nothing of what is read in place, and --in-place asks so" in done.stderr
    assert not (tmp_path / "ran").exists()


class Told(Sink):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []

    def begin(self, expected: Expected, behind: int = 0) -> int:
        self.begun.append(len(expected.records))
        return len(self.begun)

    def end(self, token: int) -> None:
        self.ended.append(token)


@pytest.mark.parametrize("wrong_epochs", [1, 3])
def test_an_order_that_was_dropped_is_taken_up_again(wrong_epochs: int) -> None:
    """A command reads one way, then as the file says; then it is foreseen again."""
    count, chance = 2000, np.random.default_rng(3)
    order = chance.permutation(count).astype(np.uint64)
    sink = Told()
    epochs_of_file = itertools.repeat(Expected(0, order, batch=count // 8))
    course = Course(sink, epochs_of_file, is_taken_up=True)
    for epoch in range(wrong_epochs + 4):
        right = epoch >= wrong_epochs
        reads = order if right else chance.permutation(count).astype(np.uint64)
        for at in range(0, count, 20):
            course.note(reads[at : at + 20])
        if not right:
            assert course.current is None and course.counts()[3] == 1
            assert len(sink.begun) == len(sink.ended) == 2
    epochs, matched, _, broken = course.counts()
    assert broken == 1 and epochs >= 4
    assert matched > 3 * count


def test_a_wrong_order_is_noticed_soon(tmp_path: Path) -> None:
    """Of files that are read in any order some are due by chance: too few to go on."""
    stage = make_stage(tmp_path)
    data = stage.path / "data"
    stage.call("prepare", str(stage.source(files=files_of(400, 10))), str(data))
    chance = np.random.default_rng(5)
    (tmp_path / "order").write_text("".join(f"f{n:03}\n" for n in chance.permutation(400)))
    with open_dataset(data) as dataset:
        epochs = read_order(str(tmp_path / "order"), [("/m", dataset)])
        for _ in range(20):
            course = Course(Sink(), epochs[0])
            reads = [dataset.lookup(b"f%03d" % n) for n in chance.permutation(400)]
            for at in range(0, 200, 10):
                course.note(np.array(reads[at : at + 10], np.uint64))
            assert course.counts()[3] == 1
