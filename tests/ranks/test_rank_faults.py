"""Whatever ends, stops or breaks among the ranks of a job, the others read right bytes, and end."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import BARE_RANK, RankRun, Ranks, make_ranks, reader, with_errno
from mpiexec import needs_ranks
from serving import find_content, flip, runs, wait_for
from soak import sampled

from fanstore.node.server import Stalls

pytestmark = needs_ranks

PACKS = 6
SIZE = 3


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """A dataset that tests only read."""
    return some_ranks(tmp_path_factory.mktemp("ranks"))


@pytest.fixture
def own(tmp_path: Path) -> Ranks:
    """A dataset that a test may break."""
    return some_ranks(tmp_path)


def some_ranks(path: Path) -> Ranks:
    chance = random.Random(3)
    files = {f"f{n:02}": chance.randbytes(40_000 + 3_001 * n) for n in range(24)}
    files |= {f"large{n}": chance.randbytes(3_000_000) for n in range(6)}
    return make_ranks(path, files, "--partitions", str(PACKS))


def shared_reads(run: RankRun, rank: int) -> str:
    """What a rank's summary says of reads that went to the shared file system."""
    (line,) = [line for line in run.err(rank).splitlines() if " staged at the start, " in line]
    return line.split(" staged at the start, ")[1].split(" read later from the shared file system")[
        0
    ]


def of_nodes(ranks: Ranks, name: str, size: int = SIZE) -> list[int]:
    """A figure of each rank's daemon."""
    return [ranks.status(rank)["node"][name] for rank in range(size)]


def wait_until_empty(ranks: Ranks, size: int = SIZE) -> None:
    """Until what was read lies in no cache, so that it is fetched again."""
    wait_for(lambda: not any(of_nodes(ranks, "resident_bytes", size)), "pieces to be dropped")


# ---- a part of a rank is killed ----


@pytest.mark.soak
def test_daemon_killed_between_requests(shared: Ranks) -> None:
    with shared.running(SIZE, reader("a", "b")) as run:
        assert run.step("a") == [shared.whole] * SIZE
        wait_until_empty(shared)
        run.kill(1, "daemon")
        assert run.step("b") == [shared.whole] * SIZE
        assert run.end() == [0, 125, 0], run.said()
    run.check_nothing_left()
    for rank in (0, 2):
        assert "lost: rank 1" in run.err(rank)
        assert shared_reads(run, rank) != "0 bytes"
    assert "the node daemon died" in run.err(1)


@pytest.mark.soak
def test_another_replica_serves_what_a_lost_rank_did(shared: Ranks) -> None:
    with shared.running(SIZE, reader("a", "b"), "--replicas", "2") as run:
        run.step("a")
        run.kill(0, "daemon")
        assert run.step("b", ranks=(1, 2)) == [shared.whole] * 2
        assert run.end() == [125, 0, 0], run.said()
    run.check_nothing_left()
    for rank in (1, 2):
        assert "lost: rank 0" in run.err(rank)
        assert shared_reads(run, rank) == "0 bytes"


WHOLE_RANK = ("daemon", "wrapper", "command")


@pytest.mark.parametrize("what", [("daemon",), WHOLE_RANK])
@pytest.mark.soak
def test_killed_in_the_middle_of_replies(shared: Ranks, what: tuple[str, ...]) -> None:
    """Three processes a rank read without a pause while a rank goes."""
    with shared.running(SIZE, reader("churn")) as run:
        run.tell("churn")
        for rank in range(SIZE):
            wait_for((run.notes / f"churning-{rank}").exists, f"rank {rank} to read")
        time.sleep(0.2)
        run.kill(2, *what)
        time.sleep(0.5)
        (run.notes / "stop").touch()
        left = range(SIZE) if what == ("daemon",) else (0, 1)
        for rank in left:
            found = run.answer("churn", rank)
            assert found["wrong"] == [] and found["codes"] == [0, 0], run.said()
            assert found["rounds"] > 0
        assert run.end() == [0, 0, 125 if what == ("daemon",) else 137], run.said()
    run.check_nothing_left(killed=() if what == ("daemon",) else (2,))
    assert "lost: rank 2" in run.err(0) and "lost: rank 2" in run.err(1)


@pytest.mark.soak
def test_wrapper_killed(shared: Ranks) -> None:
    """Its command is told to end, its daemon ends after it; the others go on."""
    with shared.running(SIZE, reader("a", "b")) as run:
        run.step("a")
        run.kill(1, "wrapper")
        assert run.step("b", ranks=(0, 2)) == [shared.whole] * 2
        assert run.end() == [0, 137, 0], run.said()
    run.check_nothing_left()


@pytest.mark.soak
def test_remote_reads_of_a_rank_without_daemon_are_bounded(own: Ranks) -> None:
    """What lies on its own disk stays; the rest comes from the shared file system, or is EIO."""
    remote, gone = own.owned(0, 2), own.dataset.with_name("gone")
    with own.running(2, reader("a", "b", "c")) as run:
        run.step("a")
        wait_until_empty(own, 2)
        own.dataset.rename(gone)
        run.kill(1, "daemon")
        found = run.step("b", ranks=(1,))
        gone.rename(own.dataset)
        assert found == [with_errno(own.whole, remote)]
        assert run.took_s("b", 1) < 10
        assert run.step("c", ranks=(1,)) == [own.whole]
        assert run.end() == [0, 125], run.said()
    run.check_nothing_left()


@pytest.mark.soak
def test_owner_and_shared_copy_gone(own: Ranks) -> None:
    with own.running(SIZE, reader("a", "b")) as run:
        run.step("a")
        wait_until_empty(own)
        own.dataset.rename(own.dataset.with_name("gone"))
        run.kill(1, "daemon")
        found = run.step("b", ranks=(0, 2))
        own.dataset.with_name("gone").rename(own.dataset)
        assert run.end() == [0, 125, 0], run.said()
    lost = own.owned(1, SIZE)
    assert 0 < len(lost) < len(own.files)
    assert found == [with_errno(own.whole, lost)] * 2
    run.check_nothing_left()


@pytest.mark.parametrize("delay_ms", sampled([0, 250], [0]))
@pytest.mark.soak
def test_daemon_killed_before_the_command_begins(shared: Ranks, delay_ms: int) -> None:
    """In MPI's start, or soon after: nobody waits for ever, and nothing is left."""
    go = shared.stage.path / f"go-{delay_ms}"
    command = ["sh", "-c", f"until test -e {go}; do sleep 0.1; done"]
    with shared.running(SIZE, command, FANSTORE_PEER_WAIT_S="1") as run:
        daemon = run.daemon(1)
        time.sleep(delay_ms / 1000)
        os.kill(daemon, signal.SIGKILL)
        run.note_processes()
        go.touch()
        codes = run.end()
    assert codes[1] == 125, run.said()
    assert set(codes) <= {0, 125}, run.said()
    run.forget_shared_memory()
    run.check_nothing_left()


def test_daemon_killed_while_it_stages(shared: Ranks) -> None:
    """Rank 2 does not come on, so that nobody can be done; then rank 1 is killed."""
    with shared.running(SIZE, ["true"], FANSTORE_PEER_WAIT_S="1") as run:
        daemons = [run.daemon(rank) for rank in range(SIZE)]
        job = run.ranks.local(2)
        wait_for(lambda: [*job.rglob("index.fsi*")] or run.process.poll() is not None, "staging")
        os.kill(daemons[2], signal.SIGSTOP)
        os.kill(daemons[1], signal.SIGKILL)
        run.note_processes()
        wait_for((run.notes / "code.0").exists, "rank 0 to end")
        os.kill(daemons[2], signal.SIGCONT)
        assert run.end() == [125] * SIZE, run.said()
    assert "rank 1" in run.err(0) or "rank 2" in run.err(0)
    run.check_nothing_left()


@pytest.mark.soak
def test_mpiexec_that_ends_all_when_one_is_lost(shared: Ranks) -> None:
    """Without -disable-auto-cleanup: what it leaves of the others ends by itself."""
    command = reader("a", "never")
    with shared.running(2, command, launcher=(), rank_shell=BARE_RANK) as run:
        run.step("a")
        run.kill(1, "daemon", "wrapper", "command")
        run.end()
        run.check_nothing_left(killed=(1,))


# ---- a rank stops for a while ----


def shared_bytes(ranks: Ranks) -> list[int]:
    """What each rank's daemon has read of the shared file system so far."""
    return of_nodes(ranks, "shared_bytes")


@pytest.mark.soak
def test_stopped_and_continued(shared: Ranks) -> None:
    """Past the deadline others serve; late bytes harm nothing; then the rank is asked again."""
    again = [f"again-{number}" for number in range(20)]
    steps = reader("a", "b", *again, "end")
    with shared.running(SIZE, steps, FANSTORE_DEADLINE_S="1") as run:
        run.step("a")
        wait_until_empty(shared)
        run.kill(1, "daemon", number=signal.SIGSTOP)
        assert run.step("b", ranks=(0, 2)) == [shared.whole] * 2
        run.kill(1, "daemon", number=signal.SIGCONT)
        assert run.answer("b", 1) == shared.whole
        served, now = [], shared_bytes(shared)
        while now != served:
            served = now
            assert run.step(again.pop(0)) == [shared.whole] * SIZE
            now = shared_bytes(shared)
        assert served[0] > 0 and served[2] > 0
        wait_for(lambda: of_nodes(shared, "quarantined") == [0] * SIZE, "late bytes")
        for step in (*again, "end"):
            run.tell(step, names={})
        assert run.end() == [0] * SIZE, run.said()
    run.check_nothing_left()
    assert not any("lost" in run.err(rank) for rank in range(SIZE)), run.said()


@pytest.mark.soak
def test_a_stall_is_told_while_it_lasts(shared: Ranks) -> None:
    """That reads go elsewhere, and when the rank is back: all while the job runs."""
    with shared.running(SIZE, reader("churn"), FANSTORE_DEADLINE_S="2") as run:
        run.command(0)
        run.note_processes()
        run.kill(1, "daemon", number=signal.SIGSTOP)
        run.tell("churn", names={0: shared.owned(1, SIZE)})
        wait_for(lambda: "rank 1 does not answer: its packs are read" in run.err(0), "the loss")
        run.kill(1, "daemon", number=signal.SIGCONT)
        wait_for(lambda: "rank 1 answers again" in run.err(0), "the return")
        (run.notes / "stop").touch()
        assert run.answer("churn", 0)["wrong"] == []
        assert run.end() == [0] * SIZE, run.said()
    assert run.err(0).count("rank 1 does not answer") == 1
    assert "lost: rank" not in run.said()
    run.check_nothing_left()


def test_what_is_said_of_ranks_that_are_waited_for() -> None:
    stalls, none = Stalls(10.0, 300.0), (0, 0.0)
    assert stalls.lines(0.0, (2, 1.5), set(), set()) == []
    (waits,) = stalls.lines(1.0, (2, 2.5), set(), set())
    assert "rank 2" in waits and "after 10 s" in waits
    assert stalls.lines(2.0, (2, 3.5), set(), set()) == []  # once a minute
    (gone,) = stalls.lines(9.0, none, {2}, set())
    assert "rank 2 does not answer" in gone
    assert stalls.lines(10.0, none, {2}, set()) == []
    assert stalls.lines(11.0, none, set(), set()) == ["rank 2 answers again"]
    assert stalls.lines(12.0, none, {2}, set()) == []  # nor is every change told
    assert stalls.lines(13.0, none, set(), set()) == []
    assert len(stalls.lines(99.0, none, {2}, {1})) == 2
    assert stalls.lines(100.0, none, {2}, {1}, 9.0) == []
    (shared,) = stalls.lines(101.0, none, {2}, {1}, 10.0)
    assert "the shared file system, silent for 10 s; after 300 s" in shared
    assert stalls.lines(102.0, none, {2}, {1}, 11.0) == []


@pytest.mark.soak
def test_stopped_at_the_end_and_for_good(shared: Ranks) -> None:
    """The others wait three deadlines for a rank that says nothing, and end without it."""
    with shared.running(SIZE, reader("a")) as run:
        daemon = run.daemon(2)
        wait_for(lambda: all((run.notes / f"pid.{r}").exists() for r in range(SIZE)), "ranks")
        for rank in range(SIZE):
            run.command(rank)
        run.note_processes()
        os.kill(daemon, signal.SIGSTOP)
        names = {0: shared.owned(0, SIZE), 1: shared.owned(1, SIZE)}
        run.step("a", ranks=(0, 1), names=names)
        for rank in (0, 1):
            wait_for((run.notes / f"code.{rank}").exists, f"rank {rank} to end")
        os.kill(daemon, signal.SIGCONT)
        assert run.end() == [0, 0, 0], run.said()
    assert "lost: rank 2" in run.err(0) and "lost: rank 2" in run.err(1)
    run.check_nothing_left()


# ---- damage, and disks that are full ----


@pytest.mark.soak
def test_damaged_pack(own: Ranks) -> None:
    """The shared copy is damaged: EIO for that file on every rank, and only for that."""
    pack, at = find_content(own.dataset, own.files["f05"])
    flip(pack, at + 100)
    with own.running(SIZE, reader("a")) as run:
        assert run.step("a") == [with_errno(own.whole, ["f05"])] * SIZE
        assert run.end() == [0] * SIZE, run.said()
    assert sum(run.err(rank).count("damaged: ") for rank in range(SIZE)) >= 1
    assert any("f05" in run.err(rank) for rank in range(SIZE))
    run.check_nothing_left()


@pytest.mark.soak
def test_damaged_pack_whose_owner_dies(own: Ranks) -> None:
    """The shared copy, which is read then, has the damage, too: EIO, never wrong bytes."""
    pack, at = find_content(own.dataset, own.files["f05"])
    flip(pack, at + 100)
    (owner,) = [rank for rank in range(SIZE) if "f05" in own.owned(rank, SIZE)]
    others = [rank for rank in range(SIZE) if rank != owner]
    with own.running(SIZE, reader("a")) as run:
        for rank in range(SIZE):
            run.command(rank)
        run.kill(owner, "daemon")
        found = run.step("a", ranks=others)
        run.end()
    assert found == [with_errno(own.whole, ["f05"])] * 2
    run.check_nothing_left()


@pytest.mark.soak
def test_damage_on_one_replica(own: Ranks) -> None:
    """A pack was damaged when one rank staged it, and is whole when another does."""
    pack, at = find_content(own.dataset, own.files["f05"])
    whole = pack.read_bytes()
    options = ("--keep-staged", "--replicas", "2")
    flip(pack, at + 100)
    with own.running(2, ["true"], *options) as run:
        assert run.end() == [0, 0]
    pack.write_bytes(whole)
    shutil.rmtree(own.local(1))
    with own.running(2, reader("a"), *options) as run:
        found = run.step("a")
        assert run.end() == [0, 0], run.said()
    assert found[1] == own.whole
    assert found[0] in (own.whole, with_errno(own.whole, ["f05"]))


@pytest.fixture
def small_disk(own: Ranks) -> Iterator[Path]:
    """The local directory of rank 1, too small for its packs."""
    disk = own.local(1)
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small tmpfs cannot be mounted: not root, or not allowed")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_full_disk_is_refused(own: Ranks, small_disk: Path) -> None:
    with own.running(2, ["true"], "--stage", "full") as run:
        assert run.end() == [125, 125], run.said()
    assert "rank 1" in run.said() and "MiB" in run.said()
    run.check_nothing_left()


@pytest.mark.soak
def test_full_disk_and_plan(own: Ranks, small_disk: Path) -> None:
    with own.running(2, reader("a")) as run:
        assert run.step("a") == [own.whole] * 2
        assert run.end() == [0, 0], run.said()
    run.check_nothing_left()


# ---- ends and signals ----


@pytest.mark.soak
def test_a_rank_that_ends_early_serves_on_and_one_that_fails_stops_nobody(shared: Ranks) -> None:
    early, go = shared.stage.path / "early", shared.stage.path / "go"
    script = (
        f"until test -e {early}; do sleep 0.1; done; "
        "case $FANSTORE_RANK in 0) exit 0;; 1) exit 3;; esac; "
        f"until test -e {go}; do sleep 0.1; done; cat $FANSTORE_MOUNT_PREFIX/* | sha256sum"
    )
    with shared.running(SIZE, ["sh", "-c", script], LC_ALL="C") as run:
        commands = [run.command(rank) for rank in range(SIZE)]
        early.touch()
        wait_for(lambda: not runs(commands[0]) and not runs(commands[1]), "two commands to end")
        run.note_processes()
        time.sleep(1.0)
        go.touch()
        assert run.end() == [0, 3, 0], run.said()
    content = b"".join(shared.files[name] for name in sorted(shared.files))
    assert run.out(2).split()[0] == hashlib.sha256(content).hexdigest()
    assert "lost" not in run.said()
    run.check_nothing_left()


@pytest.mark.soak
def test_told_to_end_while_it_waits_for_other_ranks(shared: Ranks) -> None:
    """Its command has ended; a signal says not to wait for the readers of its packs."""
    with shared.running(2, ["sh", "-c", "test $FANSTORE_RANK = 0 || exec sleep 30"]) as run:
        command = run.command(1)
        wait_for(lambda: "still read here" in run.err(0), "rank 0 to wait")
        run.kill(0, "wrapper", number=signal.SIGINT)
        wait_for((run.notes / "code.0").exists, "rank 0 to end")
        assert runs(command)
        os.kill(command, signal.SIGKILL)
        assert run.end() == [0, 137], run.said()
    run.check_nothing_left()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2"])
def test_signals_to_a_wrapper_reach_its_command(shared: Ranks, name: str) -> None:
    with shared.running(2, ["sleep", "120"]) as run:
        commands = [run.command(rank) for rank in range(2)]
        run.kill(1, "wrapper", number=getattr(signal, name))
        wait_for(lambda: not runs(commands[1]), "the command to end")
        assert runs(commands[0])
        os.kill(commands[0], signal.SIGKILL)
        assert run.end() == [137, 128 + getattr(signal, name)], run.said()
    run.check_nothing_left()
