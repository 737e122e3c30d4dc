"""Ranks under a launcher: what their commands inherit, exit codes, mistakes, interrupts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mpiexec import KEEP, RANK, needs_hydra, needs_ranks
from ranks import FANSTORE, RankStage, assert_all_ok, make_rank_stage, read_results, shm_files
from serving import LIMIT_S, READ_ALL, wait_for
from soak import sampled

pytestmark = needs_ranks

MPI_NAMES = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDRA_", "HYDI_")
INHERITED = """
import json, os, sys
files = {}
for name in os.listdir("/proc/self/fd"):
    try:
        files[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass
with open(f"{sys.argv[1]}/said.{os.environ['FANSTORE_RANK']}", "w") as stream:
    json.dump({"env": dict(os.environ), "files": files}, stream)
"""
MPI_PROGRAM = """
import hashlib, os
from mpi4py import MPI
root = os.environ["FANSTORE_MOUNT_PREFIX"]
names = sorted(os.listdir(root))
world = MPI.COMM_WORLD
found = [hashlib.sha256(open(f"{root}/{name}", "rb").read()).hexdigest() for name in names]
assert world.allgather(found) == [found] * world.size
assert world.allreduce(1) == world.size
with open(os.environ["SAID"] + os.environ["FANSTORE_RANK"], "w") as stream:
    stream.write(f"{world.rank} {world.size} {len(names)} {os.environ['FANSTORE_WORLD_SIZE']}")
"""


TOLD_TO_END = """
from fanstore.staging.crew import Stop, Stopped
from fanstore.startup import MpiWorld
stop = Stop()
stop.set()
try:
    MpiWorld(2, 30.0, stop.check)
except Stopped:
    from mpi4py import MPI
    print(MPI.Is_initialized())
"""


@pytest.fixture
def stage(tmp_path: Path) -> RankStage:
    return make_rank_stage(tmp_path, 4)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> RankStage:
    """Where the dataset of this module is, and its source in "plain"."""
    stage = make_rank_stage(tmp_path_factory.mktemp("packed"), 0)
    stage.dataset()
    return stage


@pytest.fixture
def dataset(stage: RankStage, packed: RankStage) -> Path:
    stage.files = packed.files
    return packed.path / "data"


def inherited(stage: RankStage, dataset: Path, world_size: int, *options: str) -> list[Any]:
    """The environment and open files of each rank's command."""
    extra = {"OMPI_X": "1", "PMIX_X": "1", "HYDRA_X": "1", "MPI_LOCAL_X": "1", "MPICH_X": "1"}
    before = f'readlink /proc/self/fd/$PMI_FD >{stage.path}/pmi.$PMI_RANK; exec "$@"'
    command = [sys.executable, "-c", INHERITED, str(stage.path)]
    mpiexec, n, count, *job = stage.run_argv(world_size, [dataset], command, options)
    stage.finished([mpiexec, n, count, "sh", "-c", before, "sh", *job], **extra)
    stage.assert_clean()
    return [json.loads((stage.path / f"said.{rank}").read_text()) for rank in range(world_size)]


@needs_hydra
@pytest.mark.parametrize("world_size", sampled([1, 2], [2]))
def test_the_command_is_no_rank_of_the_launcher(
    stage: RankStage, dataset: Path, world_size: int
) -> None:
    for rank, said in enumerate(inherited(stage, dataset, world_size)):
        env = said["env"]
        assert [name for name in env if name.startswith(MPI_NAMES)] == []
        assert env["MPICH_X"] == "1"
        assert (env["FANSTORE_RANK"], env["FANSTORE_WORLD_SIZE"]) == (str(rank), str(world_size))
        assert env["FANSTORE_MOUNT_PREFIX"] == str(stage.mount_of(rank))
        assert env["FANSTORE_JOB_DIR"].startswith(f"{stage.local_of(rank)}/")
        link = (stage.path / f"pmi.{rank}").read_text().strip()
        assert link.startswith("socket:") and link not in said["files"].values()


@needs_hydra
@pytest.mark.soak
def test_the_launchers_variables_can_be_kept(stage: RankStage, dataset: Path) -> None:
    for rank, said in enumerate(inherited(stage, dataset, 2, "--keep-mpi-env")):
        env = said["env"]
        assert (env["PMI_RANK"], env["PMI_SIZE"], env["OMPI_X"]) == (str(rank), "2", "1")


@pytest.mark.soak
@pytest.mark.parametrize("world_size", sampled([1, 2], [2]))
def test_the_command_may_be_an_mpi_program_of_its_own(
    stage: RankStage, dataset: Path, world_size: int
) -> None:
    command = (sys.executable, "-c", MPI_PROGRAM)
    done = stage.run_ranks(world_size, dataset, *command, SAID=f"{stage.path}/said")
    assert ("For one program over all nodes: fanstore script --mode mpi" in done.stderr) == (
        world_size > 1
    )
    for rank in range(world_size):
        assert (stage.path / f"said{rank}").read_text() == f"0 1 20 {world_size}"
    stage.assert_clean()


@pytest.mark.parametrize(
    ("ending", "code"),
    [pytest.param("exit 7", 7, marks=pytest.mark.soak), ("kill -9 $$", 137)],
)
@pytest.mark.soak
def test_a_failed_command_still_serves_the_others(
    stage: RankStage, dataset: Path, ending: str, code: int
) -> None:
    spec, reader = stage.reader(
        {"gone": [str(stage.path / "pid")], "whole": [], "figures": ["end"]},
        source=str(dataset.parent / "plain"),
    )
    script = f'[ $FANSTORE_RANK = 0 ] && exec "$@"; echo $$ >$0.part; mv $0.part $0; {ending}'
    stage.run_ranks(2, dataset, "sh", "-c", script, str(stage.path / "pid"), *reader, code=code)
    said = read_results(spec, 1)
    assert_all_ok(said)
    figures = said[0]["figures"]["end"]
    assert figures["node"]["fetches"] > 0 and figures["counters"]["shared_reads"] == 0
    stage.assert_clean()


def with_one_rank_otherwise(
    stage: RankStage, dataset: Path, odd_one: int, option: str, wrong: str
) -> list[str]:
    """mpiexec of `fanstore run true` where `option` has the value `wrong` on one rank only."""
    values = {
        "--local-dir": str(stage.path / "r{rank}"),
        "--dataset": str(dataset),
        "--stage": "full",
    }
    others = [word for pair in values.items() if pair[0] != option for word in pair]
    script = f'value=$1; [ {RANK} = {odd_one} ] && value=$0; shift; exec "$@" "$value" -- true'
    job = [*FANSTORE, "run", *others, option]
    return stage.mpiexec(2, "sh", "-c", script, wrong, values[option], *job)


def own_lines(stderr: str) -> list[str]:
    """What FanStore said, the launcher's own words left out."""
    return [line for line in stderr.splitlines() if line.startswith("fanstore")]


@pytest.mark.parametrize(
    ("odd_one", "option", "text"),
    [
        (1, "--local-dir", "not a directory"),
        (0, "--dataset", "none"),
        pytest.param(1, "--stage", "stage", marks=pytest.mark.soak),
        pytest.param(0, "--local-dir", "not a directory", marks=pytest.mark.soak),
        pytest.param(1, "--dataset", "dataset", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("auto_cleanup", sampled([True, False], [True]))
def test_a_mistake_on_one_rank_ends_all(
    stage: RankStage, dataset: Path, odd_one: int, option: str, text: str, auto_cleanup: bool
) -> None:
    (stage.path / "file").touch()
    wrongs = {"--stage": "lazy", "--local-dir": str(stage.path / "file")}
    wrong = wrongs.get(option, str(stage.path / "none"))
    argv = with_one_rank_otherwise(stage, dataset, odd_one, option, wrong)
    if not auto_cleanup:
        argv[1:1] = KEEP
    done = stage.finished(argv, None)
    assert done.returncode not in (0, None)
    said = own_lines(done.stderr)
    assert len(said) == 1 and text in said[0] and wrong in said[0], done.stderr
    assert "Traceback" not in done.stderr
    stage.assert_clean()


@pytest.mark.soak
def test_a_missing_dataset_is_said_once(stage: RankStage) -> None:
    missing = stage.path / "none"
    (said,) = own_lines(stage.run_ranks(4, missing, "true", code=125).stderr)
    assert str(missing) in said
    stage.assert_clean()


def test_ranks_without_a_process_manager_are_refused(stage: RankStage, dataset: Path) -> None:
    env = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    done = stage.finished([*FANSTORE, "run", *stage.where(dataset), "--", "true"], 125, **env)
    (said,) = own_lines(done.stderr)
    assert "started 2 ranks, but MPI sees 1" in said and "--mpi=pmi2" in said
    stage.assert_clean()


def hide(stage: RankStage, module: str, text: str) -> dict[str, str]:
    """An environment in which a module cannot be imported."""
    folder = stage.path / "hidden" / module.replace(".", "/")
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(text)
    return {"PYTHONPATH": str(stage.path / "hidden")}


def test_without_mpi_one_rank_works_and_more_say_what_is_missing(
    stage: RankStage, dataset: Path
) -> None:
    env = hide(stage, "mpi4py", "raise ImportError('hidden')\n")
    stage.run_ranks(1, dataset, "cat", str(stage.mount_of(0) / "f03"), **env)
    done = stage.run_ranks(2, dataset, "true", code=None, **env)
    assert done.returncode not in (0, None)
    assert all("mpi4py is not installed" in line for line in own_lines(done.stderr))
    assert own_lines(done.stderr)
    stage.assert_clean()


@contextlib.contextmanager
def started(stage: RankStage, dataset: Path) -> Iterator[subprocess.Popen[str]]:
    """`fanstore start` on two ranks."""
    argv = stage.mpiexec(2, *FANSTORE, "start", *stage.where(dataset))
    with stage.launched(argv) as process:
        yield process


def on(stage: RankStage, verb: str, rank: str = "{rank}", *options: str) -> list[str]:
    """A command for the job of one rank, or of each."""
    return [*FANSTORE, verb, "--local-dir", str(stage.path / f"r{rank}"), *options]


def test_an_mpi_trainer_beside_the_daemons(stage: RankStage, dataset: Path) -> None:
    with started(stage, dataset) as daemons:
        trainer = [*on(stage, "exec", "{rank}", "--wait", "40"), "--"]
        argv = stage.mpiexec(2, *trainer, sys.executable, "-c", MPI_PROGRAM)
        stage.finished(argv, SAID=f"{stage.path}/said")
        for rank in range(2):
            assert (stage.path / f"said{rank}").read_text() == f"{rank} 2 20 2"
        name = str(stage.mount_of(1) / "f05")
        again = stage.finished([*on(stage, "exec", "1"), "--", "cat", name])
        assert again.stdout == stage.files["f05"].decode()
        shm = shm_files(stage.processes("fanstore-daemon"))
        check_status(stage)
        assert daemons.poll() is None
        stage.finished(stage.mpiexec(2, *on(stage, "stop")))
        stdout, stderr = daemons.communicate(timeout=LIMIT_S)
        assert daemons.returncode == 0, stderr
        assert len(re.findall("job [0-9a-f]{8} serves", stdout)) == 2
        assert "2 ranks: " in stderr
    stage.assert_clean(shm)


def check_status(stage: RankStage) -> None:
    """`fanstore status` of each rank, for people and machines."""
    for rank in range(2):
        text = stage.finished(on(stage, "status", str(rank))).stdout
        assert f"rank {rank} of 2" in text and "1 on other ranks only" in text
        said = json.loads(stage.finished(on(stage, "status", str(rank), "--json")).stdout)
        assert (said["rank"], said["world_size"], said["lost_ranks"]) == (rank, 2, [])
        fetched, remote = said["node"]["fetched_bytes"], said["counters"]["remote_bytes"]
        assert remote > 0 and 0 < fetched <= remote
        assert "fetched from other ranks" in text
        assert sum(said["node"]["latency_bins"]) == said["node"]["fetches"]


@pytest.mark.soak
def test_stop_of_one_rank_waits_for_the_others(stage: RankStage, dataset: Path) -> None:
    with started(stage, dataset) as daemons:
        read = (sys.executable, "-c", READ_ALL)
        before = stage.finished([*on(stage, "exec", "1", "--wait", "40"), "--", *read]).stdout
        with stage.launched(on(stage, "stop", "0")) as stopping:
            time.sleep(2.2)  # until the daemon says that it waits
            after = stage.finished([*on(stage, "exec", "1"), "--", *read]).stdout
            assert after == before
            stage.finished(on(stage, "stop", "1"))
            assert stopping.wait(LIMIT_S) == 0
        assert daemons.wait(LIMIT_S) == 0
    stage.assert_clean()


def staging_of(stage: RankStage) -> list[Path]:
    """Files that are being staged, and such that were."""
    return [path for rank in range(2) for path in stage.local_of(rank).rglob("*pack-*")]


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_interrupted_while_staging(stage: RankStage, number: signal.Signals) -> None:
    source = stage.source(files={})
    for name in ("a", "b"):
        with (source / name).open("wb") as stream:
            stream.truncate(150_000_000)
    dataset = stage.dataset(source, "data", "--codec", "store")
    argv = stage.run_argv(2, [dataset], ["sleep", "60"])
    with stage.launched(argv) as process:
        wait_for(lambda: staging_of(stage), "staging")
        shm = shm_files(stage.processes("fanstore-daemon"))
        process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
        assert process.returncode != 0
        stage.assert_clean(shm)
    stage.run_ranks(2, dataset, "true")
    stage.assert_clean()


def test_told_to_end_before_mpi_starts_nobody_is_waited_for(stage: RankStage) -> None:
    argv = [sys.executable, "-c", TOLD_TO_END]
    assert stage.finished(argv).stdout == "False\n"  # who had been told to end, too, may be gone


ENDED_BY = [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 2]


@pytest.mark.parametrize("numbers", sampled(ENDED_BY, ENDED_BY[2:]))
def test_interrupted_while_the_command_runs(
    stage: RankStage, dataset: Path, numbers: list[signal.Signals]
) -> None:
    spec, reader = stage.reader(
        {"whole": [], "wait_file": ["never"]}, source=str(dataset.parent / "plain")
    )
    with stage.launched(stage.run_argv(2, [dataset], reader)) as process:
        wait_for(lambda: len(list(spec.parent.glob("here.*"))) == 2, "the commands")
        shm = shm_files(stage.processes("fanstore-daemon"))
        for number in numbers:
            process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
        # After a second Ctrl-C mpiexec says 255 or, where the ranks were just ending, 0: for ranks
        # of plain `sleep`, too. Of one it passes on what the ranks said.
        assert process.returncode != 0 or len(numbers) > 1
        assert list(spec.parent.glob("[0-9].json")) == []  # no rank did all that it was asked
        stage.assert_clean(shm)
    done = stage.run_ranks(2, dataset, sys.executable, "-c", READ_ALL)
    digests = re.findall("[0-9a-f]{64}", done.stdout)  # mpiexec may join what two ranks print
    assert len(digests) == 2 and len(set(digests)) == 1
    stage.assert_clean()


def test_signals_to_a_wrapper_reach_its_command(stage: RankStage, dataset: Path) -> None:
    script = 'trap "echo usr2 >$0$FANSTORE_RANK; exit 0" USR2; echo $PPID >$0pid$FANSTORE_RANK; '
    script += "while :; do sleep 0.05; done"
    said = stage.path / "said"
    with stage.launched(stage.run_argv(2, [dataset], ["sh", "-c", script, str(said)])) as process:
        for rank in range(2):
            path = stage.path / f"saidpid{rank}"
            wait_for(lambda path=path: path.exists() and path.read_text(), "the commands")
            os.kill(int(path.read_text()), signal.SIGUSR2)
        process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0
    assert (stage.path / "said0").exists() and (stage.path / "said1").exists()
    stage.assert_clean()
