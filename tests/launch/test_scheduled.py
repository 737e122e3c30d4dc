"""Job scripts for PBS, LSF and plain ssh: what is printed, and what it does on two nodes that are
this machine, reached by stand-ins for ssh, blaunch and pbs_tmrsh."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mpiexec import MPIEXEC, needs_hydra, needs_ranks
from serving import Stage, make_stage, wait_for
from soak import sampled

from fanstore.errors import UsageError
from fanstore.launch import job_script
from fanstore.launch.job_script import ScriptJob
from fanstore.launch.site import Site

SCHEDULERS = ("pbs", "lsf", "ssh")

# Runs a command line "on" a host, as those do: they differ in the options before its name.
REACH = """\
#!/bin/sh
echo "${0##*/}" >> "$REACHED"
while case $1 in -*) true ;; *) false ;; esac; do shift; done
export NODE="$1"
shift
eval "exec $*"
"""
# mpiexec for what needs no MPI: it notes its options as JSON, and runs the command once.
FAKE_MPIEXEC = """\
import json, os, sys
at = sys.argv.index("-disable-auto-cleanup") + 1
with open("launched", "w") as stream:
    json.dump(sys.argv[1:at], stream)
os.execvp(sys.argv[at], sys.argv[at:])
"""
HOSTILE = (
    "two words", "it's", 'say "hi"', "line\nbreak", "$HOME", "$(touch owned)", "`touch owned`",
    "back\\slash", "*", "", "-x", "a;b&c|d>e", "#no", "{{ nodes }}", "{#", "end\\",
)  # fmt: skip
REACHED_BY = {"pbs": "pbs_tmrsh", "lsf": "blaunch", "ssh": "ssh"}


@dataclass(frozen=True)
class Desk:
    """A directory with the stand-ins, and what the schedulers give a script."""

    path: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FANSTORE", "SLURM"))}
        given = {"PBS_O_WORKDIR": str(self.path), "PBS_NODEFILE": str(self.path / "slots")}
        given |= {"PBS_JOBID": "12.server", "LSB_JOBID": "12"}
        given["LSB_DJOB_HOSTFILE"] = str(self.path / "slots")
        path = f"{self.path / 'bin'}:{os.environ['PATH']}"
        return {**kept, **given, "PATH": path, "REACHED": str(self.path / "reached")}

    def request(self, scheduler: str, *command: str) -> ScriptJob:
        """A job on two nodes, without FanStore: `fanstore run` becomes the command."""
        hosts = ("node1", "node2") if scheduler == "ssh" else ()
        fanstore = str(self.path / "bin" / "fanstore")
        words = command or ("true",)
        return ScriptJob(scheduler, 2, words, (("--dataset", "d"),), fanstore, hosts=hosts)

    @contextmanager
    def running(
        self, request: ScriptJob, site: Site | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """The script while it runs, in a session that is ended afterwards whatever it does."""
        script = self.path / "job.sh"
        script.write_text(job_script.render(request, site or Site()))
        with subprocess.Popen(
            ["bash", script], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd=self.path, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, request: ScriptJob, site: Site | None = None) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of the script."""
        with self.running(request, site) as process:
            stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr


def put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "bin").mkdir()
    for name in REACHED_BY.values():
        put(tmp_path / "bin" / name, REACH)
    (tmp_path / "slots").write_text("node1\nnode1\nnode2\nnode2\n")
    past = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    put(tmp_path / "bin" / "fanstore", f"#!/bin/sh\n{past}\n")
    (tmp_path / "mpiexec.py").write_text(FAKE_MPIEXEC)
    words = shlex.join([sys.executable, str(tmp_path / "mpiexec.py")])
    put(tmp_path / "bin" / "mpiexec", f'#!/bin/sh\nexec {words} "$@"\n')
    return Desk(tmp_path)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_hostile_words_arrive_and_each_node_is_named_once(desk: Desk, scheduler: str) -> None:
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    request = desk.request(scheduler, sys.executable, "-c", code, *HOSTILE)
    put(desk.path / "bin" / "module", "#!/bin/sh\n")
    site = Site(modules=HOSTILE)
    ended, stdout, stderr = desk.run(request, site)
    assert (ended, stderr) == (0, "")
    assert json.loads(stdout) == list(HOSTILE)
    assert not (desk.path / "owned").exists()
    launched = json.loads((desk.path / "launched").read_text())
    assert launched[launched.index("-hosts") + 1] == "node1,node2"
    assert launched[launched.index("-n") + 1] == "2" and "-ppn" in launched


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_exit_code_is_the_commands(desk: Desk, scheduler: str) -> None:
    assert desk.run(desk.request(scheduler, "sh", "-c", "exit 3"))[0] == 3


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_script_that_is_told_to_end_tells_the_command_and_waits(desk: Desk, scheduler: str) -> None:
    patient = "trap 'echo saved; exit 5' TERM; echo runs; while :; do sleep 0.1; done"
    with desk.running(desk.request(scheduler, "bash", "-c", patient)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (5, "saved\n")
    assert "the command gets TERM" in stderr


@needs_ranks
@needs_hydra
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_ctrl_c_in_a_terminal_is_term_for_every_command(desk: Desk, scheduler: str) -> None:
    """It goes to the whole process group of the script, as Ctrl-C does."""
    patient = "trap 'echo saved $NODE; exit 5' TERM; trap 'echo hurried' INT; echo runs\n"
    patient += "for _ in {1..600}; do sleep 0.1; done"
    request = replace(desk.request(scheduler, "bash", "-c", patient), mpiexec=str(MPIEXEC))
    with desk.running(request) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["runs\n"] * 2
        os.killpg(process.pid, signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 5
    assert sorted(stdout.splitlines()) == ["saved node1", "saved node2"]


@pytest.mark.parametrize("scheduler", ["pbs", "lsf"])
def test_fewer_nodes_than_asked_for_are_refused(desk: Desk, scheduler: str) -> None:
    (desk.path / "slots").write_text("node1\nnode1\n")
    code, stdout, stderr = desk.run(desk.request(scheduler, "echo", "ran"))
    assert (code, stdout) == (125, "")
    assert "job: 2 nodes were asked for, and there are 1: node1" in stderr


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_shellcheck_has_no_objection(desk: Desk, scheduler: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    script = desk.path / "job.sh"
    for local_dir in (None, "/scratch/$USER"):
        request = replace(desk.request(scheduler), local_dir=local_dir)
        script.write_text(job_script.render(request, Site()))
        done = subprocess.run(["shellcheck", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_what_is_asked_for_is_in_the_header(desk: Desk) -> None:
    asked = {"time": "1-2:30", "cpus": 4, "gpus": 2, "mem_bytes": 4 << 30, "job_name": "a"}
    asked |= {"queue": "b", "account": "c", "output": "o.txt", "directives": ("-x 1",)}
    expected = {
        "pbs": [
            "-l select=2:ncpus=4:ngpus=2:mem=4096mb", "-l place=scatter", "-l walltime=26:30:00",
            "-j oe", "-N a", "-q b", "-A c", "-o o.txt", "-x 1",
        ],
        "lsf": [
            "-n 2", '-R "span[ptile=1]"', '-R "affinity[core(4)]"', '-gpu "num=2/host"',
            '-R "rusage[mem=4096MB]"', "-W 26:30", "-wa TERM", "-wt 5", "-J a", "-q b", "-P c",
            "-o o.txt", "-x 1",
        ],
    }  # fmt: skip
    for scheduler, mark in (("pbs", "#PBS "), ("lsf", "#BSUB ")):
        text = job_script.render(replace(desk.request(scheduler), **asked), Site())  # type: ignore[arg-type]
        lines = [line for line in text.splitlines() if line.startswith(mark)]
        assert [line.removeprefix(mark) for line in lines] == expected[scheduler]


def test_seconds_of_a_limit_are_kept_or_rounded_up(desk: Desk) -> None:
    for scheduler, line in (("pbs", "walltime=00:01:30\n"), ("lsf", "-W 0:02\n")):
        request = replace(desk.request(scheduler), time="1:30", mem_bytes=1)
        assert line in (text := job_script.render(request, Site()))
        assert "mem=1" in text and "-wt" not in text


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("job_name", "two words", "--job-name 'two words'"), ("queue", "-q", "--queue"),
        ("output", "a\nb", "--output"), ("account", "$(x)\"", "--account"),
        ("time", "soon", "--time"), ("time", "0", "--time"),
        ("directives", ("x",), "--directive 'x'"),
        ("directives", ("-x\n-y",), "--directive"), ("local_dir", "/x/{rank}", "one machine"),
    ],
)  # fmt: skip
def test_what_no_header_takes_is_refused(desk: Desk, field: str, value: object, said: str) -> None:
    request = replace(desk.request("pbs"), **{field: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError) as error:
        job_script.render(request, Site())
    assert said in str(error.value)


@pytest.mark.parametrize("hosts", ["", "a,", "a,a", "-oProxyCommand=x", "a b", "a,$(x)"])
def test_list_of_hosts_that_cannot_be_is_refused(hosts: str) -> None:
    with pytest.raises(UsageError, match="--hosts"):
        job_script.parse_hosts(hosts)


@pytest.mark.parametrize("site", [Site(mpi="pmix"), Site(sbatch=("--exclusive",))])
def test_what_a_site_says_of_slurm_is_refused_elsewhere(desk: Desk, site: Site) -> None:
    with pytest.raises(UsageError, match="is Slurm's"):
        job_script.render(desk.request("lsf"), site)


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fanstore", "script", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "--scheduler slurm needs --nodes"),
        ("--scheduler pbs", "--scheduler pbs needs --nodes"),
        ("--scheduler pbs -N 2 --hosts a,b", "--hosts means nothing with --scheduler pbs"),
        ("--scheduler ssh", "--scheduler ssh needs --hosts"),
        ("--scheduler ssh --hosts a,b -N 2", "--nodes means nothing with --scheduler ssh"),
        ("--scheduler ssh --hosts a --time 5", "--time means nothing with --scheduler ssh"),
        ("--scheduler pbs -N 2 --mode run", "--mode means nothing with --scheduler pbs"),
        ("--scheduler ssh --hosts a --analyze", "--analyze means nothing with --scheduler ssh"),
        ("--scheduler sge -N 2", "'slurm', 'pbs', 'lsf', 'ssh'"),
        ("--scheduler slurm -N 2 --directive -x", "sbatch option '-x'"),
    ],
)
def test_wrong_use_prints_no_script(words: str, said: str) -> None:
    done = call(*words.split(), "--dataset", "d", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_slurm_gets_the_same_options_in_its_own_words() -> None:
    words = "-N 2 --time 30 --account a --output o --queue q --cpus-per-task 4 --gpus-per-node 2"
    words += " --mem 1T --job-name n --directive --x --trap --dataset d --quiet -- true"
    lines = call(*words.split()).stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("#SBATCH")] == [
        "--nodes=2", "--ntasks-per-node=1", "--no-kill", "--signal=B:USR2@300", "--job-name=n",
        "--partition=q", "--account=a", "--output=o", "--time=30", "--cpus-per-task=4",
        "--gpus-per-node=2", "--mem=1048576M", "--x",
    ]  # fmt: skip
    assert "    --trap \\" in lines


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@needs_ranks
@needs_hydra
@pytest.mark.parametrize("scheduler", sampled(SCHEDULERS, ["ssh"]))
def test_job_on_two_nodes_reads_and_leaves_nothing(
    stage: Stage, desk: Desk, scheduler: str
) -> None:
    source = stage.source(files={"a": b"hello", "b/c": b"x" * 100_000})
    dataset = stage.path / "data"
    stage.call("prepare", str(source), str(dataset), "--partitions", "2")
    stage.mount.mkdir()  # both nodes are this machine
    reader = 'cat "$FANSTORE_MOUNT_PREFIX"/a "$FANSTORE_MOUNT_PREFIX"/b/c | md5sum >"$NODE.read"'
    report = f'{reader}; echo "$FANSTORE_RANK $FANSTORE_WORLD_SIZE $FANSTORE_LOCAL_DIR" >"$NODE.is"'
    nodes = ["--hosts", "node1,node2"] if scheduler == "ssh" else ["-N", "2"]
    local = str(desk.path / "local") + "/$NODE"
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--local-dir", local]
    printed = call("--scheduler", scheduler, *nodes, *where, "--", "bash", "-c", report)
    assert printed.returncode == 0, printed.stderr
    (desk.path / "job.sh").write_text(printed.stdout)
    done = subprocess.run(["bash", "job.sh"], env=desk.env, cwd=desk.path, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 ranks" in done.stderr
    assert (desk.path / "reached").read_text().split() == [REACHED_BY[scheduler]] * 2
    read = {(desk.path / f"node{number}.read").read_text() for number in (1, 2)}
    plain = subprocess.run(["md5sum"], input=b"hello" + b"x" * 100_000, capture_output=True)
    assert read == {plain.stdout.decode()}
    for rank in (0, 1):
        assert (desk.path / f"node{rank + 1}.is").read_text().startswith(f"{rank} 2 ")
    left = [path for path in (desk.path / "local").rglob("*") if path.is_file()]
    wait_for(lambda: not [path for path in left if path.exists()], "empty local directories")
