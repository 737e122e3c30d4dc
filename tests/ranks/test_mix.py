"""A random mix of jobs: loaders, orders that are right, wrong or cut off, caches, kills of workers,
daemons, commands and ranks, resumes in the middle of an epoch, two jobs at once and one after the
other in one place. Every byte is compared, every wait bounded, and nothing may be left behind.

FANSTORE_MIX_SEED repeats a run, FANSTORE_MIX_S says how long `make soak` goes on."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from fault_tools import RankRun, Ranks, command_of, make_ranks
from mix_reader import DIED, FAILED, WRONG, epoch_order
from mpiexec import needs_ranks
from serving import children, daemon_of

pytestmark = needs_ranks

SOAK_S = float(os.environ.get("FANSTORE_MIX_S", "300"))
SEED = int(os.environ.get("FANSTORE_MIX_SEED", str(time.time_ns() % 1_000_000)))
READER = Path(__file__).parents[1] / "support" / "mix_reader.py"
KINDS = ["plain", *(["torch"] if importlib.util.find_spec("torch") else [])]
END_LIMIT_S = 90.0


@dataclass(frozen=True)
class Job:
    """One job of the mix. victim: the rank that `fault` meets, after `delay_s`."""

    size: int
    kind: str
    workers: int
    epochs: int
    resume: float
    pause_s: float
    seed: int
    order: str
    policy: str
    cache: str
    stage: str
    local: str
    fault: str
    victim: int
    delay_s: float


def draw(chance: random.Random) -> Job:
    size = chance.randint(1, 3)
    return Job(
        size=size,
        kind=chance.choice(KINDS),
        workers=chance.randint(0, 3),
        epochs=chance.randint(1, 3),
        resume=chance.choice([0, 0, chance.random()]),
        pause_s=chance.choice([0, 0.001, 0.003]),
        seed=chance.randrange(1 << 30),
        order=chance.choice(["auto", "right", "wrong", "cut", "off"]),
        policy=chance.choice(["belady", "close", "lru", "minio", "random"]),
        cache=chance.choice(["10M", "16M", "64M"]),
        stage=chance.choice(["full", "plan", "lazy"]),
        local=chance.choice(["1M", "4M", "1G"]),
        fault=chance.choice(["", "", "", "worker", "daemon", "command", "rank"]),
        victim=chance.randrange(size),
        delay_s=chance.random() * 0.8,
    )


def order_options(ranks: Ranks, job: Job, where: Path) -> list[str]:
    """Writes the files of --order, one for each rank, and returns the options."""
    if job.order in ("auto", "off"):
        return ["--order", job.order]
    seed = job.seed + (job.order == "wrong")
    for rank in range(job.size):
        epochs = [epoch_order(list(ranks.files), seed, rank, n) for n in range(job.epochs)]
        text = "\n".join("".join(f"{name}\n" for name in epoch) for epoch in epochs)
        lines = text.splitlines(keepends=True)
        kept = len(lines) // 3 if job.order == "cut" else len(lines)
        (where / f"order-{rank}").write_text("".join(lines[:kept]))
    return ["--order", str(where / "order-{rank}")]


def start(stack: contextlib.ExitStack, ranks: Ranks, job: Job) -> RankRun:
    where = ranks.stage.path / f"mix{len(list(ranks.stage.path.glob('mix*')))}"
    where.mkdir()
    asked = {**asdict(job), "digests": ranks.whole}
    (where / "asked.json").write_text(json.dumps(asked))
    options = ["--stage", job.stage, "--cache-bytes", job.cache, *order_options(ranks, job, where)]
    if job.stage != "full":
        options += ["--local-bytes", job.local]
    command = [sys.executable, str(READER), str(where / "asked.json")]
    env = {"FANSTORE_CACHE_POLICY": job.policy}
    return stack.enter_context(ranks.running(job.size, command, *options, **env))


def strike(run: RankRun, job: Job) -> None:
    """Does what the job's fault is, where that is still running."""
    for rank in range(job.size):
        with contextlib.suppress(AssertionError):  # it may have ended by now
            run.wrapper(rank)
    end_s = time.monotonic() + 30
    while time.monotonic() < end_s and run.process.poll() is None:
        run.note_processes()
        if (run.notes / f"code.{job.victim}").exists() or is_at_work(run, job.victim):
            break
        time.sleep(0.02)
    time.sleep(job.delay_s)
    if not job.fault or not is_at_work(run, job.victim):
        return
    run.note_processes()
    for pid in struck(run.wrapper(job.victim), job.fault):
        with contextlib.suppress(ProcessLookupError):  # it may end at any moment
            os.kill(pid, signal.SIGKILL)


def struck(wrapper: int, fault: str) -> list[int]:
    """The processes of a rank that a fault ends, those of them that are there."""
    command, daemon = command_of(wrapper), daemon_of(wrapper)
    found = {
        "worker": children(command)[:1], "command": [command], "daemon": [daemon],
        "rank": [daemon, wrapper, command],
    }[fault]  # fmt: skip
    return [pid for pid in found if pid]


def is_at_work(run: RankRun, rank: int) -> bool:
    """Whether the command of a rank runs."""
    return command_of(run.wrapper(rank)) != 0


def check(run: RankRun, job: Job) -> None:
    codes = run.end(END_LIMIT_S)
    allowed = {
        "": {0}, "worker": {0, DIED}, "command": {0, 137}, "daemon": {0, 125, FAILED},
        "rank": {0, None, 137},
    }[job.fault]  # fmt: skip
    assert WRONG not in codes and "WRONG" not in run.said(), run.said()
    for rank, code in enumerate(codes):
        expected = allowed if rank == job.victim else {0}
        assert code in expected, f"rank {rank} ended with {code}\n{run.said()}"
    run.check_nothing_left([job.victim] if job.fault == "rank" else ())


def round_of(places: Sequence[Ranks], chance: random.Random) -> None:
    """One job, or two at once."""
    jobs = [draw(chance) for _ in range(chance.choice([1, 1, 2]))]
    print(*jobs, sep="\n", flush=True)
    with contextlib.ExitStack() as stack:
        runs = [start(stack, place, job) for place, job in zip(places, jobs, strict=False)]
        for run, job in zip(runs, jobs, strict=True):
            strike(run, job)
        for run, job in zip(runs, jobs, strict=True):
            check(run, job)


def make_places(path: Path, chance: random.Random) -> list[Ranks]:
    places = []
    for name in ("one", "two"):
        (path / name).mkdir()
        files = {f"f{n:02}": chance.randbytes(chance.randrange(200_000)) for n in range(48)}
        files |= {"empty": b"", "long": chance.randbytes(3_000_000)}
        places.append(make_ranks(path / name, files, "--partitions", "4"))
    return places


@pytest.mark.soak
def test_some_jobs(tmp_path: Path) -> None:
    print(f"FANSTORE_MIX_SEED={SEED}")
    chance = random.Random(SEED)
    places = make_places(tmp_path, chance)
    for _ in range(2):
        round_of(places, chance)


@pytest.mark.soak
def test_jobs_for_minutes(tmp_path: Path) -> None:
    print(f"FANSTORE_MIX_SEED={SEED}")
    chance = random.Random(SEED)
    places = make_places(tmp_path, chance)
    end_s = time.monotonic() + SOAK_S
    while time.monotonic() < end_s:
        round_of(places, chance)
