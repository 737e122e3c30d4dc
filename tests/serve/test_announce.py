"""Programs that say themselves what they will read: fanstore.order.announce."""

from __future__ import annotations

import sys
import textwrap

import pytest
from serving import Stage, make_stage

ALL = "order of reading known for 100.0 % of opens (as the program said)"
BEGIN = """
import os, random, signal, sys, time
from fanstore import order
from fanstore.order import Files
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
def announce(*args, **options):
    # Announces, and waits until that is heard: these programs end sooner than others begin.
    before = heard()
    order.announce(*args, **options)
    end = time.monotonic() + 60
    while heard() == before and time.monotonic() < end:
        time.sleep(0.005)
def heard():
    known = encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["order"]
    return known and (known["epochs"], known["refused"])
root = os.environ["FANSTORE_MOUNT_PREFIX"]
paths = [os.path.join(root, name) for name in sorted(os.listdir(root))]
def read(files):
    for path in files:
        open(path, "rb").read()
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = make_stage(tmp_path_factory.mktemp("announce"))
    stage.dataset(stage.source(files={f"f{n:03}": bytes([n % 251]) * 50 for n in range(400)}))
    return stage


def said(stage: Stage, code: str, *options: str) -> str:
    """Runs a program in a mount; returns what FanStore says of it."""
    program = BEGIN + textwrap.dedent(code)
    where = ("--dataset", str(stage.path / "data"), "--mount", str(stage.mount), *options)
    return stage.call("run", *where, "--", sys.executable, "-c", program).stderr


def test_paths_in_their_order_epoch_by_epoch(stage: Stage) -> None:
    code = """
    for epoch in range(3):
        random.Random(epoch).shuffle(paths)
        announce(paths)
        read(paths)
    """
    found = said(stage, code)
    assert ALL in found and "wrong" not in found, found


def test_numbers_of_files_that_were_told_before(stage: Stage) -> None:
    code = """
    os.chdir(root)
    files = Files(os.fsencode(os.path.basename(path)) for path in paths)
    for epoch in range(3):
        drawn = random.Random(epoch).choices(range(len(files)), k=300)
        announce(drawn, of=files)
        read(paths[each] for each in drawn)
    """
    found = said(stage, code)
    assert ALL in found and "wrong" not in found, found


def test_several_loaders_of_a_process_at_once(stage: Stage) -> None:
    code = """
    training, validation = paths[:300], paths[300:]
    announce(validation, name="validation")
    for epoch in range(2):
        random.Random(epoch).shuffle(training)
        announce(training, name="training")
        read(training[:200])
        read(validation[50 * epoch:50 * epoch + 50])
        read(training[200:])
    """
    found = said(stage, code)
    assert ALL in found and "wrong" not in found, found


def test_a_window_that_is_announced_again_and_again(stage: Stage) -> None:
    code = """
    drawn = random.Random(5)
    for _ in range(20):
        near = drawn.sample(paths, 16)
        announce(near, window=4)
        read(near)
    order.announce([])
    """
    found = said(stage, code)
    assert ALL in found and "wrong" not in found, found


def test_processes_that_are_forked_or_killed(stage: Stage) -> None:
    """Each tells its files anew, one that dies takes nothing from others."""
    code = """
    files = Files(paths)
    announce(range(100), of=files)
    read(paths[:100])
    for number in range(3):
        pid = os.fork()
        if not pid:
            drawn = list(range(100 * number, 100 * number + 100))
            random.Random(number).shuffle(drawn)
            announce(drawn, of=files)
            read(paths[each] for each in drawn)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
    announce(range(300, 400), of=files)
    read(paths[300:])
    """
    found = said(stage, code)
    assert ALL in found, found


def test_a_wrong_announcement_is_given_up_until_the_next(stage: Stage) -> None:
    code = """
    announce(paths, window=4)
    read(paths[::-1])
    announce(paths)
    read(paths)
    """
    found = said(stage, code)
    share = float(found.partition("known for ")[2].partition(" %")[0])
    assert 50 <= share < 60, found
    assert "(as the program said), wrong in 1 epoch" in found


def test_files_of_no_mount_are_refused(stage: Stage) -> None:
    found = said(stage, "random.shuffle(paths); announce(['/etc/passwd']); read(paths)")
    assert "order of reading not known: the files of its dataset are not known" in found, found


def test_a_job_that_wants_no_orders_hears_nothing(stage: Stage) -> None:
    found = said(stage, "order.announce(paths); read(paths)", "--order", "off")
    assert "order of reading" not in found


def test_a_job_that_hears_torch_alone_follows_nobody_else(stage: Stage) -> None:
    found = said(stage, "announce(paths); [read(paths) for _ in range(9)]", "--order", "torch")
    assert "order of reading not known: --order torch follows only torch's loaders" in found, found
