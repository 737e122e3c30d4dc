"""kill -9 of the daemon, the wrapper or the command at any point: no hang, the next run works."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from serving import (
    READ_ALL,
    Stage,
    children,
    command_of,
    daemon_of,
    make_stage,
    process_name,
    runs,
    shared_memory,
    wait_for,
)
from soak import combined, sampled

# Milliseconds after the daemon's start: some fall into each phase.
DELAYS = (0, 20, 30, 60, 90, 120, 160, 200, 250, 300)
DELAYS_MS = sampled(DELAYS, (0, 90, 200))
FEW_DELAYS_MS = sampled(DELAYS, (90,))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def dataset(stage: Stage) -> Path:
    source = stage.source(files={f"f{n}": os.urandom(2_000_000) for n in range(8)})
    return stage.dataset(source)


def arguments(stage: Stage, dataset: Path, *command: str) -> list[str]:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount)]
    return ["run", *where, "--", *command]


def check_next_run(stage: Stage, dataset: Path) -> None:
    """The next run sees every byte, and leaves nothing, not even what others left."""
    done = stage.run(dataset, sys.executable, "-c", READ_ALL)
    expected = hashlib.sha256(b"".join(stage.files[name] for name in sorted(stage.files)))
    assert done.stdout.strip() == expected.hexdigest()
    assert stage.leftovers() == []
    assert not shared_memory()


@pytest.mark.parametrize("delay_ms", FEW_DELAYS_MS)
def test_wrapper_killed(stage: Stage, dataset: Path, delay_ms: int) -> None:
    with stage.running(
        *arguments(stage, dataset, "sleep", "60"), FANSTORE_ORPHAN_WAIT_S="5"
    ) as run:
        wait_for(lambda: daemon_of(run.pid), "the daemon")
        time.sleep(delay_ms / 1000)
        mine = [run.pid, *children(run.pid)]
        run.kill()
        run.wait()
        wait_for(lambda: not any(runs(pid) for pid in mine), "daemon and command to end")
        assert stage.leftovers() == []
    check_next_run(stage, dataset)


@pytest.mark.parametrize("delay_ms", FEW_DELAYS_MS)
def test_daemon_killed(stage: Stage, dataset: Path, delay_ms: int) -> None:
    go = stage.path / "go"
    script = f"until test -e {go}; do sleep 0.1; done; exit 3"
    with stage.running(*arguments(stage, dataset, "sh", "-c", script)) as run:
        wait_for(lambda: daemon_of(run.pid), "the daemon")
        daemon = daemon_of(run.pid)
        time.sleep(delay_ms / 1000)
        os.kill(daemon, signal.SIGKILL)
        go.touch()
        _, stderr = run.communicate(timeout=60)
        assert run.returncode in (3, 125)
        assert "the node daemon died" in stderr
    assert stage.leftovers() == []
    check_next_run(stage, dataset)


def test_daemon_killed_while_the_command_reads(stage: Stage, dataset: Path) -> None:
    go = stage.path / "go"
    script = f"until test -e {go}; do sleep 0.1; done; cat {stage.mount}/* | wc -c"
    with stage.running(*arguments(stage, dataset, "sh", "-c", script)) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        go.touch()
        out, err = run.communicate(timeout=60)
    assert out.strip() == "16000000"
    assert run.returncode == 125 and "the node daemon died" in err
    assert stage.leftovers() == []


@pytest.mark.soak
def test_another_job_does_not_take_the_files_of_one_whose_daemon_died(
    stage: Stage, dataset: Path
) -> None:
    go = stage.path / "go"
    script = f"until test -e {go}; do sleep 0.1; done; cat {stage.mount}/* | wc -c"
    with stage.running(*arguments(stage, dataset, "sh", "-c", script)) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        stage.run(dataset, "true")
        go.touch()
        assert run.communicate(timeout=60)[0].strip() == "16000000"
    assert stage.leftovers() == []


@pytest.mark.parametrize("delay_ms", FEW_DELAYS_MS)
def test_command_killed(stage: Stage, dataset: Path, delay_ms: int) -> None:
    script = f"while :; do cat {stage.mount}/* >/dev/null; done"
    with stage.running(*arguments(stage, dataset, "sh", "-c", script)) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        time.sleep(delay_ms / 1000)
        os.kill(command_of(run.pid), signal.SIGKILL)
        run.communicate(timeout=60)
        assert run.returncode == 137
    assert stage.leftovers() == []
    check_next_run(stage, dataset)


def test_a_command_that_ignores_the_end_of_its_wrapper_is_ended(
    stage: Stage, dataset: Path
) -> None:
    script = f"trap '' TERM; touch {stage.path}/ready; while :; do sleep 0.05; done"
    argv = arguments(stage, dataset, "bash", "-c", script)
    with stage.running(*argv, FANSTORE_ORPHAN_WAIT_S="0.3") as run:
        wait_for((stage.path / "ready").exists, "the command")
        command, daemon = command_of(run.pid), daemon_of(run.pid)
        run.kill()
        run.wait()
        wait_for(lambda: not runs(daemon), "the daemon's end")
        assert not runs(command)
    assert stage.leftovers() == []


@pytest.mark.parametrize("name, delay_ms", combined(["SIGTERM", "SIGINT"], DELAYS_MS))
def test_told_to_end_at_any_moment(stage: Stage, dataset: Path, name: str, delay_ms: int) -> None:
    """From the daemon's birth on; before that nothing has been made."""
    number = getattr(signal, name)
    with stage.running(*arguments(stage, dataset, "sleep", "60")) as run:
        wait_for(lambda: daemon_of(run.pid), "the daemon")
        time.sleep(delay_ms / 1000)
        run.send_signal(number)
        run.communicate(timeout=60)
        assert run.returncode == 128 + number
    assert stage.leftovers() == []


def test_daemon_and_wrapper_killed_the_next_start_cleans_up(stage: Stage, dataset: Path) -> None:
    with stage.running(*arguments(stage, dataset, "sleep", "60")) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        command, daemon = command_of(run.pid), daemon_of(run.pid)
        os.kill(daemon, signal.SIGKILL)
        run.kill()
        run.wait()
        wait_for(lambda: not runs(command), "the command's end")
    assert stage.leftovers() != []
    assert "dead" in stage.call("status", code=1).stdout
    check_next_run(stage, dataset)


@pytest.mark.soak
def test_stop_removes_what_a_dead_daemon_left(stage: Stage, dataset: Path) -> None:
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    stage.call("start", *where)
    status = json.loads(stage.call("status", "--json").stdout)
    os.kill(status["daemon_pid"], signal.SIGKILL)
    wait_for(lambda: not runs(status["daemon_pid"]), "the daemon's end")
    dead = json.loads(stage.call("status", "--json", code=1).stdout)
    assert (dead["state"], dead["job_id"]) == ("dead", status["job_id"])
    stage.call("exec", "--", "true", code=125)
    stage.call("stop")
    assert stage.leftovers() == []


def test_partial_copies_of_a_killed_stager_are_not_used(stage: Stage, dataset: Path) -> None:
    """A copier dies with a part file; a kept directory holds only whole packs afterwards."""
    stage.run(dataset, "true", options=("--keep-staged",))
    (pack,) = stage.local.rglob("pack-00000.fsp")
    pack.with_name(pack.name + ".part").write_bytes(pack.read_bytes()[:1000])
    pack.with_name(pack.name + ".ok").unlink()
    check_next_run(stage, dataset)


def test_process_names(stage: Stage, dataset: Path) -> None:
    with stage.running(*arguments(stage, dataset, "sleep", "60")) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        assert process_name(daemon_of(run.pid)) == "fanstore-daemon"
        run.terminate()
        run.wait(60)
