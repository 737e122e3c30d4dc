"""Programs that announce nothing, and read their files in the same order again."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, make_stage
from soak import sampled

COUNT = 1200
BEGIN = """
import os, random, sys, time, subprocess
from concurrent.futures import ThreadPoolExecutor
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
root = os.environ["FANSTORE_MOUNT_PREFIX"]
paths = [os.path.join(root, name) for name in sorted(os.listdir(root))]
def figures():
    return encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["order"]
def until(what):
    end = time.monotonic() + 60
    while not what(figures()) and time.monotonic() < end:
        time.sleep(0.01)
def read(files, workers=1):
    # As fast as the daemon may look, and no faster: notes of what is opened are not kept for long.
    def one(path):
        open(path, "rb").read()
        time.sleep(0.001 * workers)
    with ThreadPoolExecutor(workers) as crew:
        list(crew.map(one, files))
def settle():
    # Until all that was opened until now is counted.
    time.sleep(0.3)
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = make_stage(tmp_path_factory.mktemp("recorded"))
    stage.dataset(stage.source(files={f"f{n:04}": bytes([n % 251]) * 50 for n in range(COUNT)}))
    return stage


def said(stage: Stage, code: str, *options: str) -> str:
    """Runs a program in a mount; returns what FanStore says of it."""
    program = BEGIN + textwrap.dedent(code)
    where = ("--dataset", str(stage.path / "data"), "--mount", str(stage.mount), *options)
    done = stage.call("run", *where, "--", sys.executable, "-c", program)
    return done.stdout + done.stderr


def share(found: str) -> float:
    """Returns for how many percent of the opens the order was known."""
    return float(found.partition("known for ")[2].partition(" %")[0] or 0)


@pytest.mark.parametrize("workers", sampled([1, 4], [4]))
@pytest.mark.soak
def test_epochs_in_the_same_order(stage: Stage, workers: int) -> None:
    code = f"""
    random.Random(1).shuffle(paths)
    for _ in range(4):
        read(paths, {workers})
    """
    found = said(stage, code)
    assert 65 < share(found) < 75, found  # all but the first epoch
    assert "(as it read before)" in found and "wrong" not in found


@pytest.mark.soak
def test_orders_that_never_come_again_are_not_followed(stage: Stage) -> None:
    code = """
    for epoch in range(3):
        random.Random(epoch).shuffle(paths)
        read(paths)
    """
    found = said(stage, code)
    assert "order of reading" not in found, found


@pytest.mark.soak
def test_validation_among_epochs_that_nobody_can_know(stage: Stage) -> None:
    """What comes behind it in the first round is expected once, and not again."""
    code = """
    training, validation = paths[:900], paths[900:]
    for epoch in range(5):
        random.Random(epoch).shuffle(training)
        read(training)
        read(validation)
        time.sleep(0.2)
        print(figures(), flush=True)
    """
    found = said(stage, code)
    known = [eval(line) for line in found.splitlines() if line.startswith("{")]
    assert [each["broken"] for each in known[:3]] == [0, 0, 1], found
    assert known[-1]["broken"] <= 2, found  # not in each epoch; a busy machine sees some opens late
    assert known[-1]["predicted"] - known[2]["predicted"] >= 450, found  # of 600


@pytest.mark.soak
def test_an_order_is_taken_up_again_after_others(stage: Stage) -> None:
    code = """
    for order in (1, 1, 2, 1, 1):
        chosen = list(paths)
        random.Random(order).shuffle(chosen)
        read(chosen)
    """
    found = said(stage, code)
    assert 30 < share(found) < 45, found  # the second and the last epoch
    assert "wrong in" in found


@pytest.mark.soak
def test_two_programs_at_once_are_two_readers(stage: Stage) -> None:
    code = """
    if len(sys.argv) == 1:
        both = [subprocess.Popen([sys.executable, "-c", open("/proc/self/cmdline").read()
                                  .split("\\0")[2], word], start_new_session=True)
                for word in ("front", "back")]
        sys.exit(sum(each.wait() for each in both))
    for _ in range(4):
        mine = paths[600:] if sys.argv[1] == "back" else paths[:600]
        random.Random(sys.argv[1]).shuffle(mine)
        read(mine)
        time.sleep(0.3 * (sys.argv[1] == "back"))
    """
    found = said(stage, code)
    assert share(found) > 65, found


def test_files_in_the_order_of_the_listing(stage: Stage) -> None:
    found = said(stage, "read(paths)")
    assert share(found) > 80, found


@pytest.mark.soak
def test_processes_that_open_a_file_each(stage: Stage) -> None:
    code = """
    for _ in range(3):
        for path in paths[:500]:
            subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
    """
    found = said(stage, code)
    assert share(found) > 10, found  # more where the machine is not busy


@needs_ranks
def test_what_comes_again_is_brought(tmp_path: Path) -> None:
    """Of files that two ranks share, and a cache that does not keep what was read."""
    stage = make_rank_stage(tmp_path, 2)
    files = {f"f{n:04}": bytes([n % 251]) * 30_000 for n in range(600)}
    dataset = stage.dataset(stage.source(files=files))
    program = BEGIN + textwrap.dedent("""
        random.Random(int(os.environ["FANSTORE_RANK"])).shuffle(paths)
        for _ in range(3):
            read(paths)
    """)
    options = ["--cache-policy", "close", "--cache-bytes", "10MiB"]
    done = stage.run_ranks(2, dataset, sys.executable, "-c", program, options=options)
    assert 55 < share(done.stderr) < 70, done.stderr
    assert "(as it read before)" in done.stderr and "brought ahead: " in done.stderr, done.stderr
