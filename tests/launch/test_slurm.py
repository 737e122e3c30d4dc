"""The printed job scripts on a real Slurm: one controller and two nodes on this machine."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path
from types import ModuleType

import pytest
from serving import Stage, daemon_of, make_stage, runs, wait_for

TOOL = Path(__file__).resolve().parents[2] / "tools" / "slurm" / "cluster.py"
JOB_LIMIT_S = 120.0
# Slurm's pmi2 takes at most 1,024 bytes for a request (22.05: one read, whatever came). MPICH's are
# longer by chance: they hold 4 KiB of its memory, written shorter where that is zero.
PMI2_BREAKS = "not properly terminated in client request"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cluster", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster"] = module
    spec.loader.exec_module(module)
    return module


cluster = load_tool()
pytestmark = pytest.mark.skipif(
    bool(cluster.missing_programs()),
    reason=f"no Slurm here (Debian: slurm-wlm, munge): no {', '.join(cluster.missing_programs())}",
)

ODD_FILES = {
    "empty": b"",
    "two words": b"a" * 5000,
    "line\nbreak": os.urandom(70_000),
    "sub/dir/$HOME": os.urandom(3000),
    "sub/ümlaut": b"b" * 200_000,
    **{f"many/{n:03}": os.urandom(100 * n) for n in range(60)},
}

# Writes what this rank sees of the mount, and where it is, to a file of its own.
READ = """\
import hashlib, json, os, sys
out, rank, size = sys.argv[1], os.environ["SLURM_PROCID"], os.environ["SLURM_STEP_NUM_TASKS"]
if len(sys.argv) > 2:
    from mpi4py import MPI
    rank, size = str(MPI.COMM_WORLD.rank), MPI.COMM_WORLD.allreduce(1)
root = os.environ["FANSTORE_MOUNT_PREFIX"]
seen = {}
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        content = open(path, "rb").read()
        about = [os.stat(path).st_size, hashlib.sha256(content).hexdigest()]
        seen[os.path.relpath(path, root)] = about
about = {"seen": seen, "size": int(size), "node": os.environ["SLURMD_NODENAME"]}
about["job"] = os.environ["FANSTORE_JOB_DIR"]
about["fanstore"] = [os.environ["FANSTORE_RANK"], os.environ["FANSTORE_WORLD_SIZE"]]
json.dump(about, open(os.path.join(out, rank), "w"))
"""

# Runs until it gets USR2 or TERM, then still reads every file; the signals' names to a file.
PATIENT = """\
import os, signal, sys, time
root = os.environ["FANSTORE_MOUNT_PREFIX"]
mine = os.path.join(sys.argv[1], os.environ["SLURM_PROCID"])
got = []
for number in (signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, lambda number, _: got.append(signal.Signals(number).name))
open(mine + ".runs", "w").close()
end = time.monotonic() + 60
while not got and time.monotonic() < end:
    time.sleep(0.02)
time.sleep(1)  # for a second one
paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
total = sum(len(open(path, "rb").read()) for path in paths)
with open(mine + ".new", "w") as stream:
    print(total, *got, file=stream)
os.rename(mine + ".new", mine)
os._exit(6)
"""


@dataclass
class Slurm:
    """The cluster, and a stage with a dataset of four packs."""

    cluster: object
    stage: Stage
    dataset: Path
    plain: dict[str, list[object]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """Where Slurm's commands and fanstore find nothing but this test's."""
        environ: dict[str, str] = self.cluster.environ  # type: ignore[attr-defined]
        kept = {name: value for name, value in environ.items() if not name.startswith("FANSTORE")}
        return {**kept, "FANSTORE_CONFIG": ""}

    def call(self, *command: str | Path, code: int | None = 0) -> str:
        """The output of one of Slurm's commands."""
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=JOB_LIMIT_S
        )
        assert code is None or done.returncode == code, f"{done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def script(self, name: str, *options: str, command: list[str]) -> Path:
        """A job script for two nodes, as printed."""
        where = ["--dataset", str(self.dataset), "--mount", str(self.stage.mount)]
        output = str(self.stage.path / f"{name}.out")
        words = ["-N", "2", "--time", "5", "--output", output, *where, *options, "--", *command]
        path = self.stage.path / f"{name}.sh"
        path.write_text(self.call(sys.executable, "-m", "fanstore", "script", *words))
        return path

    def submit(self, script: Path) -> str:
        """The job's number."""
        return self.call("sbatch", "--parsable", script)

    def await_commands(self, script: Path, told: list[Path]) -> None:
        """Waits until each command has said that it runs; if one never does, shows the output."""

        def run() -> bool:
            assert PMI2_BREAKS not in self.printed(script)
            return all(path.exists() for path in told)

        try:
            wait_for(run, "the commands", JOB_LIMIT_S)
        except AssertionError:
            queue = self.call("squeue", "--long")
            self.cancel_all()
            raise AssertionError(f"{queue}\n{self.printed(script)}") from None

    def cancel_all(self) -> None:
        """Ends what jobs there are."""
        self.call("scancel", "--full", "--user", getuser(), code=None)
        wait_for(lambda: self.call("squeue", "--noheader") == "", "the end of all jobs", 60)

    def end(self, job: str) -> tuple[str, int]:
        """State and exit code of a job once it has ended; its output where it does not end."""

        def about() -> dict[str, str]:
            words = self.call("scontrol", "--oneliner", "show", "job", job).split()
            return dict(word.split("=", 1) for word in words if "=" in word)

        def ended() -> bool:
            return about()["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")

        try:
            wait_for(ended, f"job {job}", JOB_LIMIT_S)
        except AssertionError:
            self.call("scancel", "--full", job, code=None)
            raise AssertionError(Path(about()["StdOut"]).read_text()) from None
        final = about()
        return final["JobState"], int(final["ExitCode"].partition(":")[0])

    def output(self, script: Path) -> str:
        """What a job printed."""
        return script.with_suffix(".out").read_text()

    def printed(self, script: Path) -> str:
        """What a job has printed so far."""
        path = script.with_suffix(".out")
        return path.read_text() if path.exists() else ""

    def folder(self, name: str) -> Path:
        """A new directory for what the ranks write."""
        path = self.stage.path / name
        path.mkdir()
        return path

    def node_leftovers(self) -> list[str]:
        """What lies in the nodes' local directories."""
        at: Path = self.cluster.folder  # type: ignore[attr-defined]
        return [str(p) for node in ("node1", "node2") for p in (at / node / "tmp").rglob("*")]


def again_where_pmi2_breaks(test: Callable[..., None]) -> Callable[..., None]:
    """A test of jobs, done once more, twice at most, where Slurm broke off the start of MPI."""

    @functools.wraps(test)
    def run(slurm: Slurm, **arguments: object) -> None:
        for attempts_left in (2, 1, 0):
            before = set(slurm.stage.path.iterdir())
            try:
                return test(slurm, **arguments)
            except AssertionError:
                made = set(slurm.stage.path.iterdir()) - before
                printed = [path.read_text() for path in made if path.suffix == ".out"]
                if attempts_left == 0 or not any(PMI2_BREAKS in text for text in printed):
                    raise
                slurm.cancel_all()
                for path in made:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    return run


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    stage = make_stage(tmp_path_factory.mktemp("s"))
    source = stage.source(files=ODD_FILES)
    dataset = stage.path / "data"
    stage.call("prepare", str(source), str(dataset), "--partitions", "4")
    # Both nodes are this machine, where they cannot both be the one that makes the prefix.
    stage.mount.mkdir()
    started = cluster.Cluster(stage.path / "slurm")
    started.up(2)
    plain = {
        name: [len(content), hashlib.sha256(content).hexdigest()]
        for name, content in ODD_FILES.items()
    }
    try:
        yield Slurm(started, stage, dataset, plain)
    finally:
        started.down()


def check_ranks(slurm: Slurm, out: Path, ranks: int) -> None:
    """Each rank saw the whole directory, on two nodes, each with a local directory of its own."""
    assert sorted(os.listdir(out)) == [str(rank) for rank in range(ranks)]
    told = [json.loads((out / str(rank)).read_text()) for rank in range(ranks)]
    for about in told:
        assert about["seen"] == slurm.plain
        assert about["size"] == ranks
        assert f"/{about['node']}/tmp/" in about["job"]
    assert {about["node"] for about in told} == {"node1", "node2"}
    assert {tuple(about["fanstore"]) for about in told} == {("0", "2"), ("1", "2")}


@again_where_pmi2_breaks
def test_one_command_a_node(slurm: Slurm) -> None:
    out = slurm.folder("run")
    script = slurm.script("run-job", command=[sys.executable, "-c", READ, str(out)])
    assert slurm.end(slurm.submit(script)) == ("COMPLETED", 0), slurm.output(script)
    check_ranks(slurm, out, 2)
    assert "2 ranks" in slurm.output(script)
    assert slurm.node_leftovers() == []


@again_where_pmi2_breaks
def test_one_command_a_node_through_mpiexec(slurm: Slurm) -> None:
    out = slurm.folder("hydra")
    site = slurm.stage.path / "hydra.toml"
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    site.write_text(f"mpiexec = [{json.dumps(mpiexec)}]\n")
    command = [sys.executable, "-c", READ, str(out)]
    script = slurm.script("hydra-job", "--site", str(site), command=command)
    assert slurm.end(slurm.submit(script)) == ("COMPLETED", 0), slurm.output(script)
    check_ranks(slurm, out, 2)


@pytest.mark.parametrize("mpiexec", [False, True])
@again_where_pmi2_breaks
def test_own_ranks_beside_the_daemons(slurm: Slurm, mpiexec: bool) -> None:
    out = slurm.folder(f"own-{mpiexec}")
    options = ["--mode", "mpi", "--ntasks-per-node", "2"]
    if mpiexec:
        site = slurm.stage.path / "own.toml"
        site.write_text(f'mpiexec = ["{Path(sys.executable).parent}/mpiexec"]\n')
        options += ["--site", str(site)]
    command = [sys.executable, "-c", READ, str(out), "mpi"]
    script = slurm.script(f"own-job-{mpiexec}", *options, command=command)
    assert slurm.end(slurm.submit(script)) == ("COMPLETED", 0), slurm.output(script)
    check_ranks(slurm, out, 4)
    assert slurm.node_leftovers() == []


@again_where_pmi2_breaks
def test_rank_goes_on_when_another_fails_and_the_code_is_known(slurm: Slurm) -> None:
    out = slurm.folder("fails")
    lines = f'[ "$SLURM_PROCID" = 1 ] && exit 3; sleep 3; echo "$SLURM_PROCID" > {out}/went-on'
    script = slurm.script("fails-job", command=["bash", "-c", lines])
    assert slurm.end(slurm.submit(script)) == ("FAILED", 3), slurm.output(script)
    assert (out / "went-on").read_text() == "0\n"


def start_patient(slurm: Slurm, name: str, *options: str) -> tuple[Path, Path, str]:
    """A job that waits for a signal, once both its commands run."""
    out = slurm.folder(name)
    command = [sys.executable, "-c", PATIENT, str(out)]
    script = slurm.script(f"{name}-job", *options, command=command)
    job = slurm.submit(script)
    started = [out / f"{rank}.runs" for rank in (0, 1)]
    slurm.await_commands(script, started)
    return out, script, job


@pytest.mark.parametrize("mode", ["run", "mpi"])
@again_where_pmi2_breaks
def test_warning_reaches_every_command(slurm: Slurm, mode: str) -> None:
    out, script, job = start_patient(slurm, f"warned-{mode}", "--mode", mode)
    slurm.call("scancel", "--batch", "--signal=USR2", job)
    assert slurm.end(job) == ("FAILED", 6), slurm.output(script)
    total = sum(len(content) for content in ODD_FILES.values())
    for rank in (0, 1):
        assert (out / str(rank)).read_text() == f"{total} SIGUSR2\n", slurm.output(script)


@again_where_pmi2_breaks
def test_cancelled_job_still_reads_and_leaves_nothing(slurm: Slurm) -> None:
    out, script, job = start_patient(slurm, "cancelled")
    slurm.call("scancel", job)
    assert slurm.end(job)[0] == "CANCELLED"
    for rank in (0, 1):
        wait_for((out / str(rank)).exists, f"end of rank {rank}: {slurm.output(script)}", 30)
        total, first, *_ = (out / str(rank)).read_text().split()
        assert (int(total), first) == (sum(map(len, ODD_FILES.values())), "SIGTERM")
    wait_for(lambda: not slurm.node_leftovers(), "empty local directories", 30)


# Writes an output, and another once it is told to end.
WRITER = """\
import os, signal, sys, time
root, rank, got = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["SLURM_PROCID"], []
signal.signal(signal.SIGTERM, lambda *_: got.append(1))
os.makedirs(f"{root}/saved", exist_ok=True)
def save(name):
    with open(f"{root}/saved/{name}.part", "wb") as stream:
        stream.write(name.encode() * 100_000)
    os.rename(f"{root}/saved/{name}.part", f"{root}/saved/{name}")
save(f"early-{rank}")
open(os.path.join(sys.argv[1], rank + ".runs"), "w").close()
end = time.monotonic() + 60
while not got and time.monotonic() < end:
    time.sleep(0.02)
save(f"late-{rank}")
"""


@again_where_pmi2_breaks
def test_outputs_of_a_cancelled_job_are_all_there(slurm: Slurm) -> None:
    told, out = slurm.folder("saving"), slurm.stage.path / "saved-by-a-job"
    command = [sys.executable, "-c", WRITER, str(told)]
    script = slurm.script("saving-job", "--output-dir", str(out), command=command)
    job = slurm.submit(script)
    slurm.await_commands(script, [told / f"{rank}.runs" for rank in (0, 1)])
    slurm.call("scancel", job)
    assert slurm.end(job)[0] == "CANCELLED"
    wait_for(lambda: not slurm.node_leftovers(), "empty local directories", 30)
    names = [f"{when}-{rank}" for when in ("early", "late") for rank in (0, 1)]
    found = {path.name: path.read_bytes() for path in (out / "saved").iterdir()}
    assert found == {name: name.encode() * 100_000 for name in names}, slurm.output(script)
    assert os.listdir(out) == ["saved"]


# The rank on node1 reads once the test says so; the other one tells its processes and stays.
BEREAVED = """\
import os, sys, time
out, root, node = sys.argv[1], os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["SLURMD_NODENAME"]
with open(os.path.join(out, node + ".new"), "w") as stream:
    print(os.getpid(), os.getppid(), file=stream)
os.rename(os.path.join(out, node + ".new"), os.path.join(out, node))
end = time.monotonic() + 100
while time.monotonic() < end and not (node == "node1" and os.path.exists(out + "/lost")):
    time.sleep(0.05)
paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
print(sum(len(open(path, "rb").read()) for path in paths), file=open(out + "/total", "w"))
"""


@again_where_pmi2_breaks
def test_loss_of_a_node_does_not_end_the_other(slurm: Slurm) -> None:
    out = slurm.folder("loss")
    script = slurm.script("loss-job", command=[sys.executable, "-c", BEREAVED, str(out)])
    job = slurm.submit(script)
    told = [out / "node1", out / "node2"]
    slurm.await_commands(script, told)
    command, wrapper = map(int, told[1].read_text().split())
    stepd = int(Path(f"/proc/{wrapper}/stat").read_text().rpartition(") ")[2].split()[1])
    for pid in (stepd, daemon_of(wrapper), wrapper, command):
        os.kill(pid, signal.SIGKILL)
    slurm.call("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=lost")
    try:
        (out / "lost").touch()
        slurm.end(job)
    finally:  # by itself, too, once its slurmd has told that it lives
        slurm.call("scontrol", "update", "NodeName=node2", "State=RESUME", code=None)
    total = sum(len(content) for content in ODD_FILES.values())
    assert (out / "total").read_text() == f"{total}\n", slurm.output(script)
    assert "rank 1" in slurm.output(script)


def recorded(folder: Path) -> list[int]:
    return [int(pid) for pid in json.loads((folder / "processes.json").read_text())]


def tool(*arguments: str | Path, code: int = 0) -> None:
    done = subprocess.run(
        [sys.executable, TOOL, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr


def test_cluster_comes_down_also_after_a_crash(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    tool("up", folder, "--nodes", "1")
    try:
        started = recorded(folder)
        assert len(started) == 3 and all(map(runs, started))
        tool("up", folder, code=1)
        tool("run", folder, "--", "srun", "true")
        tool("run", folder, "--", "srun", "sh", "-c", "exit 4", code=4)
        os.kill(started[1], signal.SIGKILL)
    finally:
        tool("down", folder)
    assert not any(map(runs, started))
    tool("down", folder)


def test_cluster_leaves_a_stranger_with_a_recorded_id_alone(tmp_path: Path) -> None:
    (tmp_path / "processes.json").write_text(json.dumps({str(os.getpid()): "1"}))
    tool("down", tmp_path)
