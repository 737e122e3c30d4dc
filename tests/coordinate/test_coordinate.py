"""Jobs that share prepared batches: each batch once, whatever dies."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Stage, make_stage, runs, shared_memory, wait_for
from soak import sampled

from fanstore.job.jobs import find_jobs
from fanstore.messages.channel import Channel, open_stream

JOB = Path(__file__).with_name("coordinate_job.py")
Job = subprocess.Popen[str]


@contextlib.contextmanager
def started(path: Path) -> Iterator[Stage]:
    """A node daemon by itself."""
    stage = make_stage(path)
    data = stage.dataset()
    before = shared_memory()
    stage.call("start", "--dataset", str(data), "--mount", str(stage.mount), "--quiet")
    try:
        yield stage
    finally:
        stage.call("stop")
    assert shared_memory() <= before


def begin(
    stage: Stage, *names: str, batches: int = 24, epochs: int = 2, **options: str
) -> list[Job]:
    """Jobs under `fanstore exec`, one for each name."""
    words = [f"{key}={value}" for key, value in options.items()]
    numbers = [str(options.pop("jobs", len(names))), str(batches), str(epochs)]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "fanstore", "exec", "--", sys.executable, str(JOB),
             str(stage.path), name, *numbers, *words],
            env=stage.env, stderr=subprocess.PIPE, text=True,
        )
        for name in names
    ]  # fmt: skip


def lines(stage: Stage, kind: str, name: str) -> list[str]:
    path = stage.path / f"{kind}-{name}"
    return path.read_text().splitlines() if path.exists() else []


def finish(jobs: list[Job], code: int = 0) -> list[str]:
    said = [job.communicate(timeout=60)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [code] * len(jobs), said
    return said


def all_batches(batches: int = 24, epochs: int = 2) -> list[str]:
    return [f"{epoch} {batch}" for epoch in range(epochs) for batch in range(batches)]


def test_each_batch_is_prepared_once_and_used_once_by_each(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        finish(begin(stage, *"abcd"))
        prepared = Counter(line for name in "abcd" for line in lines(stage, "prepared", name))
        assert prepared == Counter(all_batches())
        for name in "abcd":
            assert lines(stage, "used", name) == all_batches()
            assert len(lines(stage, "prepared", name)) == 12


def test_whatever_is_no_request_is_refused(tmp_path: Path) -> None:
    lines = (b"{", b"[]", b'{"op": []}', b'{"op": "dance"}', b'{"op": "join", "name": 3}')
    with started(tmp_path) as stage:
        (job,) = find_jobs(str(stage.local))
        with contextlib.closing(Channel(open_stream(job.directory, "coordinate", 10.0))) as channel:
            for line in lines:
                channel.socket.sendall(line + b"\n")
                assert json.loads(channel.receive_line() or b"{}")["error"] == "refused", line
        finish(begin(stage, *"ab"))


def test_jobs_that_disagree_are_refused(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        first = begin(stage, "a", jobs="2", wait_s="20")
        wait_for(lambda: len(memory_files(stage)) > 0, "the first job joined")
        other = begin(stage, "b", jobs="2", **{"seed-b": "2"})
        said = finish(other, 1)[0]
        assert "CoordinationRefused: seed is 2 in process" in said and "must agree" in said
        first[0].kill()
        first[0].communicate()


def memory_files(stage: Stage) -> list[str]:
    """Staging areas that the daemon has."""
    job = next((stage.local).glob(".fanstore-*/jobs/*/job.json"))
    fds = f"/proc/{json.loads(job.read_text())['daemon_pid']}/fd"
    found = []
    for fd in os.listdir(fds):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"{fds}/{fd}"))
    return [name for name in found if "fanstore-coordinate" in name]


@pytest.mark.soak
def test_too_little_memory_is_told_before_the_first_epoch(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        said = finish(begin(stage, "a", room=str(1 << 44)), 1)[0]
        assert "bytes of memory (4 batches of" in said and "are left" in said
        assert memory_files(stage) == []


def test_a_preparation_that_raises_is_told_once_and_taken_over(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        good, bad = begin(stage, "a", "b", **{"raise": "b"})
        said = finish([bad], 1)[0]
        assert said.count("ArithmeticError: this transform raises") == 1
        finish([good])
        assert lines(stage, "used", "a") == all_batches()


def test_a_stalled_job_s_batches_are_taken_over(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        finish(begin(stage, "a", "b", epochs=1, stall="b", deadline_s="0.3"))
        assert lines(stage, "used", "a") == lines(stage, "used", "b") == all_batches(epochs=1)


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({}, id="closed", marks=pytest.mark.soak),
        pytest.param({"open": "at its end"}, id="open"),
    ],
)
def test_a_worker_that_stands_still_keeps_no_job_from_its_end(
    tmp_path: Path, left: dict[str, str]
) -> None:
    with started(tmp_path) as stage:
        finish(begin(stage, "a", "b", stop="b", deadline_s="0.3", **left))
        assert lines(stage, "used", "a") == lines(stage, "used", "b") == all_batches()
        assert len(lines(stage, "prepared", "b")) == 1


@pytest.mark.soak
def test_a_job_that_never_comes_is_named_at_the_deadline(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        said = finish(begin(stage, "a", jobs="3", wait_s="0.5"), 1)[0]
        assert "CoordinationTimeout" in said and "1 of 3 jobs have joined" in said


@pytest.mark.soak
def test_a_daemon_that_dies_is_told(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    data = stage.dataset()
    stage.call("start", "--dataset", str(data), "--mount", str(stage.mount), "--quiet")
    job = json.loads(next(stage.local.glob(".fanstore-*/jobs/*/job.json")).read_text())
    running = begin(stage, "a", "b", epochs=1000, pause_s="0.05")
    wait_for(lambda: len(lines(stage, "used", "a")) > 2, "batches are used")
    os.kill(job["daemon_pid"], signal.SIGKILL)
    for each in running:
        said = each.communicate(timeout=60)[1]
        assert "CoordinationLost: the node daemon" in said and each.returncode != 0
    stage.call("clean")


def kill_at_random(path: Path, seed: int) -> None:
    """Kills one or two of four jobs at any moment; the others use each batch once."""
    draw = random.Random(seed)
    with started(path) as stage:
        jobs = begin(stage, *"abcd", pause_s="0.01", workers=str(draw.choice([1, 2])))
        victims = draw.sample(range(4), draw.choice([1, 2]))
        for victim in victims:
            name, count = "abcd"[victim], draw.randrange(40)
            kind = draw.choice(["used", "prepared"])
            wait_for(
                lambda k=kind, n=name, c=count, v=victim: (
                    len(lines(stage, k, n)) >= c or jobs[v].poll() is not None
                ),
                "the moment of the kill",
            )
            jobs[victim].kill()
        left = [job for at, job in enumerate(jobs) if at not in victims]
        finish(left)
        for at, name in enumerate("abcd"):
            used = lines(stage, "used", name)
            assert used == all_batches()[: len(used)], f"seed {seed}"
            assert at in victims or len(used) == 48, f"seed {seed}"
        for job in jobs:
            job.communicate(timeout=60)
            assert not runs(job.pid)
        wait_for(lambda: memory_files(stage) == [], "the staging area is freed")


@pytest.mark.parametrize("seed", sampled(range(3), [0]))
def test_others_end_their_epochs_when_jobs_are_killed(tmp_path: Path, seed: int) -> None:
    kill_at_random(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_others_end_their_epochs_at_many_moments(tmp_path: Path, seed: int) -> None:
    kill_at_random(tmp_path, seed)


@pytest.mark.soak
def test_ctrl_c_ends_a_job_and_the_others_go_on(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        stays, ends = begin(stage, "a", "b", pause_s="0.02")
        wait_for(lambda: len(lines(stage, "used", "b")) > 2, "batches are used")
        ends.send_signal(signal.SIGINT)
        said = ends.communicate(timeout=60)[1]
        assert ends.returncode != 0 and "KeyboardInterrupt" in said
        finish([stays])
        assert lines(stage, "used", "a") == all_batches()


@pytest.mark.soak
def test_a_job_may_take_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        stays, ends = begin(stage, "a", "b", epochs=6, pause_s="0.02")
        wait_for(lambda: len(lines(stage, "used", "b")) > 2, "batches are used")
        ends.kill()
        ends.communicate()
        finish(begin(stage, "c", jobs="2", epochs=1))
        finish([stays])
        epochs = {line.split()[0] for line in lines(stage, "used", "c")}
        assert len(epochs) == 1 and epochs != {"0"}
        assert len(lines(stage, "used", "c")) == 24 and len(lines(stage, "prepared", "c")) > 0


def test_a_program_outside_of_a_job_is_told(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    command = [sys.executable, str(JOB), str(tmp_path), "a", "1", "1", "1"]
    done = subprocess.run(command, env=stage.env, capture_output=True, text=True)
    assert "coordinated jobs run under `fanstore exec` or `fanstore run`" in done.stderr


@pytest.mark.soak
def test_a_forked_child_is_refused_and_its_parent_stays(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        finish(begin(stage, "a", "b", fork="b"))
        assert lines(stage, "used", "a") == lines(stage, "used", "b") == all_batches()
