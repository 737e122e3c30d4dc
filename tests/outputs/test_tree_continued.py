"""A job that goes on with what an earlier one left in the output directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, make_stage, wait_for

TRAIN = """
import json, os, sys, time
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
state = {"step": 0, "weight": 1}
if os.path.exists("runs/last.json"):
    state = json.load(open("runs/last.json"))
os.makedirs("runs", exist_ok=True)
start = state["step"]
while state["step"] < 30:
    state = {"step": state["step"] + 1, "weight": state["weight"] * 3 % 1000003}
    json.dump(state, open("runs/new.json", "w"))
    os.replace("runs/new.json", "runs/last.json")
    with open("runs/log", "a") as log:
        log.write(f"{state['step']} {state['weight']}" + chr(10))
    if len(sys.argv) > 1 and state["step"] == int(sys.argv[1]):
        os.kill(os.getpid(), 9)
print(start, state["weight"])
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.dataset(stage.source(files={"input": b"input", "d/given": b"given"}))
    return stage


def options(stage: Stage, *more: str) -> tuple[str, ...]:
    return ("--output-dir", str(stage.path / "out"), *more)


def run(stage: Stage, *command: str, more: tuple[str, ...] = ("--continue",), code: int = 0) -> str:
    data = stage.path / "data"
    return stage.run(data, *command, options=options(stage, *more), code=code).stdout


def test_a_killed_job_ends_as_one_that_ran_through(stage: Stage) -> None:
    train = (sys.executable, "-c", TRAIN)
    plain, killed = stage.path / "through", stage.path / "out"
    run(stage, *train, more=())
    os.rename(killed, plain)
    run(stage, *train, "11", code=137)
    assert run(stage, *train).split()[0] == "11"
    for name in ("runs/last.json", "runs/log"):
        assert (killed / name).read_bytes() == (plain / name).read_bytes()
    assert sorted(os.listdir(killed / "runs")) == ["last.json", "log"]
    assert os.listdir(killed) == ["runs"] and stage.leftovers() == []


def test_what_is_there_is_seen_changed_and_removed(stage: Stage) -> None:
    out = stage.path / "out"
    (out / "d").mkdir(parents=True)
    (out / "d/beside").write_text("beside an input")
    (out / "d/given").write_text("not the input")
    (out / "old").write_text("old")
    (out / "link").symlink_to("d/beside")
    (out / "closed").mkdir(0o700)
    (out / "closed/f").write_text("f")
    kept = os.stat(out / "d/beside")
    script = (
        f"cd {stage.mount}; ls d; cat d/beside d/given link closed/f; readlink link; rm old; "
        "stat -c %a closed; mv closed/f closed/g; echo more >>closed/g"
    )
    said = run(stage, "sh", "-c", script)
    assert said == "beside\ngiven\nbeside an inputgivenbeside an inputfd/beside\n700\n"
    assert sorted(os.listdir(out)) == ["closed", "d", "link"]
    assert (out / "closed/g").read_text() == "fmore\n" and not (out / "closed/f").exists()
    assert (out / "d/given").read_text() == "not the input"
    now = os.stat(out / "d/beside")
    assert (now.st_ino, now.st_mtime_ns) == (kept.st_ino, kept.st_mtime_ns), "left as it was"
    assert stage.leftovers() == []


def test_without_it_nothing_is_seen(stage: Stage) -> None:
    run(stage, "sh", "-c", f"echo 1 >{stage.mount}/f", more=())
    run(stage, "sh", "-c", f"test -e {stage.mount}/f", more=(), code=1)


def test_two_jobs_do_not_go_on_with_one_directory(stage: Stage) -> None:
    where = ["--dataset", str(stage.path / "data"), "--mount", str(stage.path / "other")]
    own = ["--local-dir", str(stage.path / "own")]
    script = f"touch {stage.path}/ready; until test -e {stage.path}/go; do sleep 0.1; done"
    arguments = [*where, *own, *options(stage, "--continue"), "--", "sh", "-c", script]
    with stage.running("run", *arguments) as first:
        wait_for((stage.path / "ready").exists, "the first job")
        command = ["run", "--dataset", str(stage.path / "data"), "--mount", str(stage.mount)]
        command += [*options(stage, "--continue"), "--", "true"]
        second = subprocess.Popen(
            [sys.executable, "-m", "fanstore", *command],
            env=stage.env, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert second.stderr is not None
        told = next(line for line in second.stderr if "another job goes on" in line)
        assert f"{stage.path / 'out'}: waiting up to 30 s for its end" in told
        second.send_signal(signal.SIGINT)
        assert second.wait(timeout=60) != 0
        (stage.path / "go").touch()
        assert first.wait(timeout=60) == 0
    run(stage, "true")


RANKS_TRAIN = """
import json, os, sys, time
rank = int(os.environ["FANSTORE_RANK"])
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
os.makedirs("runs/shards", exist_ok=True)
own = f"runs/shards/{rank}.json"
state = json.load(open(own)) if os.path.exists(own) else {"step": 0, "weight": rank + 1}
start = state["step"]
while state["step"] < 20:
    state = {"step": state["step"] + 1, "weight": state["weight"] * 3 % 1000003}
    with open(f"runs/shards/new-{rank}", "w") as stream:
        json.dump(state, stream)
    os.replace(f"runs/shards/new-{rank}", own)
    if len(sys.argv) > 1 and state["step"] == int(sys.argv[1]):
        os.kill(os.getpid(), 9)
print("from", start)
"""


@needs_ranks
def test_several_ranks_go_on(tmp_path: Path) -> None:
    ranks = make_rank_stage(tmp_path, 2)
    data, out = ranks.dataset(), tmp_path / "out"
    train = (sys.executable, "-c", RANKS_TRAIN)
    options = ("--output-dir", str(out), "--continue")
    ranks.run_ranks(2, data, *train, "7", options=options, code=137)
    done = ranks.run_ranks(2, data, *train, options=options)
    assert done.stdout.split().count("7") == 2, done.stdout
    for rank in range(2):
        weight = (rank + 1) * 3**20 % 1000003
        assert f'"weight": {weight}' in (out / f"runs/shards/{rank}.json").read_text()
    assert sorted(os.listdir(out / "runs/shards")) == ["0.json", "1.json"]
    ranks.assert_clean()
