"""Job scripts for Slurm: what is printed, and what it does with stand-ins for srun and fanstore."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
import pytest
from serving import wait_for
from soak import combined

from fanstore.errors import UsageError
from fanstore.launch import job_header, job_script
from fanstore.launch.job_script import ScriptJob
from fanstore.launch.site import Site

TEMPLATES = Path(job_script.__file__).parent / "templates"
HOSTILE = (
    "two words", "it's", 'say "hi"', "line\nbreak", "$HOME", "${PATH}", "$(touch owned)",
    "`touch owned`", "back\\slash", "*", "", "-x", "a;b&c|d>e", "#no", "!!", "ü", "~", "tab\t.",
    "{{ nodes }}", "end\\",
)  # fmt: skip

# Runs what follows its options in this place, noting options and job as one line of JSON.
FAKE_SRUN = """\
import json, os, sys
at = 1
while at < len(sys.argv) and sys.argv[at].startswith("-"):
    at += 2 if sys.argv[at] in ("-n", "-ppn") else 1
with open(os.environ["FAKE_LOG"], "a") as log:
    print(json.dumps(["launch", *sys.argv[1:at]]), file=log)
os.execvp(sys.argv[at], sys.argv[at:])
"""

# Notes its arguments. run, exec: becomes the command. start: stays until `stop`.
FAKE_FANSTORE = """\
import json, os, sys, time
mark = os.environ["FAKE_LOG"] + ".stop"
with open(os.environ["FAKE_LOG"], "a") as log:
    local = os.environ.get("FANSTORE_LOCAL_DIR")
    print(json.dumps([*sys.argv[1:], {"local_dir": local}]), file=log)
if sys.argv[1] in ("run", "exec"):
    command = sys.argv[sys.argv.index("--") + 1:]
    os.execvp(command[0], command)
if sys.argv[1] == "stop":
    open(mark, "w").close()
if sys.argv[1] == "start":
    code = int(os.environ.get("FAKE_START_CODE", "-1"))
    deadline_s = time.monotonic() + 60
    while code < 0 and time.monotonic() < deadline_s and not os.path.exists(mark):
        time.sleep(0.02)
    sys.exit(max(code, 0))
"""

# Notes that it runs; on USR2 says so and ends with 7, on TERM is not to be hurried.
PATIENT = (
    "import os, signal, sys, time\n"
    "def warned(*_): print('warned', flush=True); os._exit(7)\n"
    "signal.signal(signal.SIGUSR2, warned)\n"
    "signal.signal(signal.SIGTERM, lambda *_: print('hurried', flush=True))\n"
    "print('runs', flush=True)\n"
    "end = time.monotonic() + 60\n"
    "while time.monotonic() < end and not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
    "os._exit(5)\n"
)


def command_words(*words: str) -> tuple[str, ...]:
    """A command that prints its arguments as JSON."""
    return (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words)


@dataclass(frozen=True)
class Desk:
    """A directory with stand-ins for srun, mpiexec, scontrol and fanstore."""

    path: Path

    @property
    def job(self) -> ScriptJob:
        """A job on two nodes that runs nothing much."""
        fanstore = str(self.path / "fanstore")
        return ScriptJob("slurm", 2, ("true",), (("--dataset", "data"),), fanstore)

    @property
    def env(self) -> dict[str, str]:
        """What Slurm gives a batch script, as far as it is used."""
        slurm = {"JOB_ID": "17", "JOB_NUM_NODES": "2", "JOB_NODELIST": "node[1-2]"}
        slurm |= {"NTASKS": "2", "NTASKS_PER_NODE": "1", "CPUS_PER_TASK": "1"}
        own = {"PATH": f"{self.path}:{os.environ['PATH']}", "FAKE_LOG": str(self.path / "log")}
        return {**os.environ, **own, **{f"SLURM_{name}": value for name, value in slurm.items()}}

    def write(self, job: ScriptJob, site: Site | None = None) -> Path:
        """The script in a file."""
        script = self.path / "job.sh"
        script.write_text(job_script.render(job, site or Site()))
        return script

    @contextmanager
    def running(
        self, job: ScriptJob, site: Site | None = None, **env: str
    ) -> Iterator[subprocess.Popen[str]]:
        """The script while it runs, in a session that is ended afterwards whatever it does."""
        with subprocess.Popen(
            ["bash", self.write(job, site)],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.path,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, job: ScriptJob, site: Site | None = None, **env: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of the script."""
        with self.running(job, site, **env) as process:
            stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr

    def log(self) -> list[list[object]]:
        """What the stand-ins noted."""
        return [json.loads(line) for line in (self.path / "log").read_text().splitlines()]

    def fanstore_calls(self) -> list[list[object]]:
        """What fanstore was called with."""
        return [words for words in self.log() if words[0] != "launch"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    fakes = {"srun": FAKE_SRUN, "mpiexec": FAKE_SRUN, "fanstore": FAKE_FANSTORE}
    fakes |= {"scontrol": "print('node1')"}
    for name, text in fakes.items():
        (tmp_path / f"{name}.py").write_text(text)
        # A `#!` line takes no path with a space.
        start = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$0.py" "$@"\n'
        (tmp_path / name).write_text(start)
        (tmp_path / name).chmod(0o755)
    return Desk(tmp_path)


def hostile_job(desk: Desk, mode: str) -> tuple[ScriptJob, Site]:
    options = tuple(("--dataset", word) for word in HOSTILE)
    single_line = tuple(word for word in HOSTILE if "\n" not in word)
    job = replace(
        desk.job,
        mode=mode,
        command=command_words(*HOSTILE),
        options=options,
        time="10",
        cpus=2,
        job_name=single_line[0],
        directives=tuple(f"--comment={word}" for word in single_line),
    )
    return job, Site(local_dir=str(desk.path / "local") + "".join(single_line))


@pytest.mark.parametrize("mode", ["run", "mpi"])
def test_hostile_names_arrive_as_they_are(desk: Desk, mode: str) -> None:
    job, _ = hostile_job(desk, mode)
    site = Site(environment=("module() { :; }",), modules=HOSTILE)
    code, stdout, stderr = desk.run(job, site)
    assert code == 0, stderr
    assert json.loads(stdout) == list(HOSTILE)
    served = next(words for words in desk.fanstore_calls() if words[0] in ("run", "start"))
    words = [word for option in job.options for word in option]
    assert (served[0], served[1 : len(words) + 1]) == ("start" if mode == "mpi" else "run", words)
    assert not (desk.path / "owned").exists()


MPIEXECS = [(), ("/opt/my mpi/mpiexec", "-launcher", "slurm")]


@pytest.mark.parametrize("mpiexec, mode, local", combined(MPIEXECS, ["run", "mpi"], [False, True]))
def test_script_is_sound(desk: Desk, mode: str, local: bool, mpiexec: tuple[str, ...]) -> None:
    job, site = hostile_job(desk, mode)
    local_dir = site.local_dir if local else None
    site = replace(site, mpiexec=mpiexec, local_dir=local_dir)
    script = desk.write(job, site)
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    if shutil.which("shellcheck"):
        plain = replace(desk.job, mode=mode, local_dir=job.local_dir)
        for severity, checked in (("warning", job), ("style", plain)):
            command = ["shellcheck", f"--severity={severity}", desk.write(checked, site)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout


def test_bash_would_refuse_a_broken_script(desk: Desk) -> None:
    script = desk.write(desk.job, Site(environment=("if true",)))
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode != 0


@pytest.mark.parametrize("mode, code", combined(["run", "mpi"], [0, 3, 137]))
def test_exit_code_is_the_commands(desk: Desk, mode: str, code: int) -> None:
    job = replace(desk.job, mode=mode, command=("sh", "-c", f"exit {code}"))
    assert desk.run(job)[0] == code


@pytest.mark.parametrize("mode", ["run", "mpi"])
def test_warning_reaches_the_command(desk: Desk, mode: str) -> None:
    job = replace(desk.job, mode=mode, command=(sys.executable, "-c", PATIENT, "never"))
    with desk.running(job) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGUSR2)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (7, "warned\n")
    assert "USR2" in stderr


def test_warning_through_mpiexec_is_term(desk: Desk) -> None:
    ended = desk.path / "ended"
    job = replace(desk.job, command=(sys.executable, "-c", PATIENT, str(ended)))
    with desk.running(job, Site(mpiexec=("mpiexec",))) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGUSR2)
        assert process.stdout.readline() == "hurried\n"
        ended.touch()
        process.communicate(timeout=60)
    assert process.returncode == 5


def tell_until(process: subprocess.Popen[str], number: int, text: bytes) -> None:
    """Sends a signal until stderr says so: one that comes while bash is at the trap of another is
    lost to it."""
    assert process.stderr is not None
    for _ in range(60):
        process.send_signal(number)
        if select.select([process.stderr], [], [], 1.0)[0]:
            assert text in os.read(process.stderr.fileno(), 65536)
            return
    raise AssertionError("it says nothing")


@pytest.mark.parametrize("mode", ["run", "mpi"])
def test_script_that_is_told_to_end_waits_for_the_command(desk: Desk, mode: str) -> None:
    ended = desk.path / "ended"
    job = replace(desk.job, mode=mode, command=(sys.executable, "-c", PATIENT, str(ended)))
    with desk.running(job) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "runs\n"
        for _ in range(3):
            tell_until(process, signal.SIGTERM, b"waiting for the command")
        assert process.poll() is None
        ended.touch()
        stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (5, "")


@pytest.mark.parametrize("mpiexec", [(), ("mpiexec",)])
def test_an_analysis_starts_its_runs_on_all_nodes(desk: Desk, mpiexec: tuple[str, ...]) -> None:
    local = str(desk.path / "it's local")
    job = replace(desk.job, analyze=True, command=command_words(*HOSTILE), local_dir=local)
    code, _, stderr = desk.run(job, Site(mpiexec=mpiexec))
    assert code == 0, stderr
    (words,) = desk.fanstore_calls()
    launcher = shlex.split(str(words[3]))
    assert words[:3] == ["study", "analyze", "--launcher"]
    assert words[4:6] == list(job.options[0])
    assert words[words.index("--") + 1 : -1] == list(job.command)
    said = subprocess.run([*launcher, "printenv", "FANSTORE_LOCAL_DIR"], env=desk.env,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert said.stdout == local + "\n"
    assert desk.log()[-1][0] == "launch"
    assert launcher[0] == (mpiexec or ("srun",))[0]
    assert "--nodes=2" in launcher or launcher[launcher.index("-n") + 1] == "2"


def test_address_of_the_first_node_is_known_to_every_command(desk: Desk) -> None:
    job = replace(desk.job, command=("sh", "-c", 'echo "$MASTER_ADDR:$MASTER_PORT"'))
    assert desk.run(job)[:2] == (0, "node1:20017\n")
    assert desk.run(job, MASTER_ADDR="mine")[1] == "mine:20017\n"


def test_own_ranks_run_between_start_and_stop(desk: Desk) -> None:
    code, _, stderr = desk.run(replace(desk.job, mode="mpi", command=("sh", "-c", "exit 4")))
    assert code == 4, stderr
    names = [words[0] for words in desk.fanstore_calls()]
    assert sorted(names) == ["exec", "start", "stop"] and names[-1] == "stop"


def test_failure_of_the_daemons_is_the_jobs(desk: Desk) -> None:
    job = replace(desk.job, mode="mpi", command=("sleep", "60"))
    code, _, stderr = desk.run(job, FAKE_START_CODE="3")
    assert "ended before the command" in stderr
    assert code != 0
    assert "stop" not in [words[0] for words in desk.fanstore_calls()]


@pytest.mark.parametrize("mpiexec, mode", combined([(), ("mpiexec",)], ["run", "mpi"]))
def test_one_process_a_node_survives_the_loss_of_another(
    desk: Desk, mode: str, mpiexec: tuple[str, ...]
) -> None:
    assert desk.run(replace(desk.job, mode=mode), Site(mpiexec=mpiexec))[0] == 0
    launched = [words[1:] for words in desk.log() if words[0] == "launch"]
    if mpiexec:
        assert ["-disable-auto-cleanup", "-n", "2", "-ppn", "1"] in launched
    else:
        wanted = {"--overlap", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"}
        wanted |= {"--kill-on-bad-exit=0", "--no-kill", "--mpi=pmi2"}
        assert wanted in [set(words) for words in launched]
        assert "\n#SBATCH --no-kill\n" in (desk.path / "job.sh").read_text()


@pytest.mark.parametrize("mode", ["run", "mpi"])
def test_local_directory_is_named_on_the_node(desk: Desk, mode: str) -> None:
    odd = 'it\'s "odd" $(touch owned) `touch owned` \\ $ $1 ${X:-y}'
    site = Site(local_dir=f"{desk.path}/$NODE/${{SLURM_JOB_ID}}x/{odd}")
    code, _, stderr = desk.run(replace(desk.job, mode=mode), site, NODE="a  b")
    assert code == 0, stderr
    expected = f"{desk.path}/a  b/17x/{odd}"
    assert {words[-1]["local_dir"] for words in desk.fanstore_calls()} == {expected}  # type: ignore
    assert os.path.isdir(expected) and not (desk.path / "owned").exists()


def test_job_names_the_local_directory_before_the_site(desk: Desk) -> None:
    script = desk.write(replace(desk.job, local_dir="/mine"), Site(local_dir="/theirs")).read_text()
    assert 'FANSTORE_LOCAL_DIR="/mine"' in script and "/theirs" not in script


def test_local_directory_without_rank(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"\{rank\}"):
        job_script.render(replace(desk.job, local_dir="/scratch/{rank}"), Site())


def test_site_lines_come_before_the_jobs(desk: Desk) -> None:
    site = Site(
        sbatch=("--exclusive", "--signal=B:USR2@9"), environment=("export A=1\nexport B=2",)
    )
    script = desk.write(replace(desk.job, time="9", directives=("--qos=long",)), site).read_text()
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    wanted = ["--signal=B:USR2@135", "--exclusive", "--signal=B:USR2@9", "--time=9", "--qos=long"]
    assert [line.split()[1] for line in lines][-5:] == wanted
    assert "\nexport A=1\nexport B=2\n" in script


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('module = ["gcc"]', "'module'"),
        ('modules = "gcc"', "'modules' must be a list"),
        ("modules = [1]", "'modules' must be a text"),
        ("mpi = 2", "'mpi' must be a text"),
        ('mpi = ""', "'mpi' must be a text"),
        ('mpi = "pmix"\nmpiexec = ["mpiexec"]', "'mpiexec'"),
        ('sbatch = ["--nodes=3"]', "--nodes=3"),
        ('sbatch = ["-N 3"]', "-N 3"),
        ('sbatch = ["--comment=a\\nb"]', "comment"),
        ("mpi = ", "site.toml"),
        (b"\xff", "site.toml"),
        (None, "site.toml"),
    ],
)
def test_bad_site_file_is_refused_by_name(
    tmp_path: Path, text: str | bytes | None, named: str
) -> None:
    site = tmp_path / "site.toml"
    if text is not None:
        site.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = call("-N", "2", "--site", str(site), "--dataset", "d", "--", "true", code=None)
    assert done.returncode in (2, 125) and done.stdout == ""
    assert named in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["-n4", "exclusive", "--ntasks=2", "--x=a\nb", "--", "--a\n--b"])
def test_bad_options_of_sbatch_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match="sbatch option"):
        job_header.check_option(option)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600), ("10:30", 630), ("1:02:03", 3723), ("2-3", 183600), ("1-0:30", 88200),
        ("1-01:01:01", 90061), ("UNLIMITED", None), ("1:2:3:4", None), ("", None),
    ],
)  # fmt: skip
def test_durations_are_slurms(text: str, seconds: int | None) -> None:
    assert job_header.duration_s(text) == seconds


def test_short_jobs_are_warned_later() -> None:
    assert [job_header.warning_s(time) for time in (None, "1-0", "20", "4", "INFINITE")] == [
        300, 300, 300, 60, 300,
    ]  # fmt: skip


def test_every_value_in_the_templates_is_quoted() -> None:
    values = [
        value
        for path in sorted(TEMPLATES.glob("*.j2"))
        for value in re.findall(r"{{(.*?)}}", path.read_text())
    ]
    assert len(values) > 15
    for value in values:
        assert re.search(r"\| (quote|words|verbatim) $", value), value


def test_value_that_is_not_there_is_an_error(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_script, "_values", lambda job, site: {})
    with pytest.raises(jinja2.UndefinedError):
        job_script.render(desk.job, Site())


def call(*arguments: str | bytes, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fanstore", "script", *arguments]
    done = subprocess.run(
        command, capture_output=True, timeout=60, text=True, errors="surrogateescape"
    )
    assert code is None or done.returncode == code, done.stderr
    return done


def test_options_are_those_of_run_and_mounts_stay_with_their_datasets() -> None:
    given = ["--dataset", "a", "--mount", "/m", "--in-place", "--dataset", "b", "--order", "off"]
    script = call("-N", "3", *given, "--mem", "4G", "--order", "o", "--", "true").stdout
    body = script.partition('"$fanstore" run')[2].replace("\\\n", " ")
    wanted = "--dataset a --mount /m --dataset b --in-place --order o --".split()
    assert body.split()[: len(wanted)] == wanted
    assert "#SBATCH --nodes=3\n" in script and "#SBATCH --mem=4096M\n" in script


def test_a_dataset_that_is_not_there_is_said_when_the_script_is_printed(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    for words in (["-N1"], ["--scheduler", "ssh", "--hosts", "a"]):
        where = ["--dataset", nowhere, "--", "true"]
        command = [sys.executable, "-m", "fanstore", "script", *words, *where]
        done = subprocess.run(command, capture_output=True, timeout=60, text=True)
        assert done.returncode == 0 and nowhere in done.stdout
        assert done.stderr == (
            f"fanstore: warning: on this machine the job would fail: {nowhere}: no such directory\n"
        )


def test_several_nodes_without_mpi4py_are_said_when_the_script_is_printed(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "import importlib.util as util, sys\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'mpi4py' else find(name, *more)\n"
        "from fanstore.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    said = "mpi4py is not installed: pip install 'fanstore-fs[mpi]'"
    for words in (
        ["-N2"], ["--scheduler", "ssh", "--hosts", "a,b"], ["--scheduler", "pbs", "-N", "2"],
    ):  # fmt: skip
        command = [sys.executable, str(hidden), "script", *words, "--dataset", "d", "--", "true"]
        done = subprocess.run(command, capture_output=True, timeout=60, text=True)
        assert done.returncode == 0 and said in done.stderr
    command[command.index("2")] = "1"
    assert said not in subprocess.run(command, capture_output=True, timeout=60, text=True).stderr


def test_names_that_are_no_text_are_printed_as_they_are() -> None:
    assert "'--dataset'" not in (
        script := call("-N", "1", "--dataset", b"\xff'", "--", "true").stdout
    )
    assert "--dataset '\udcff'\"'\"''" in script


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dataset", "d", "--", "true"],
        ["-N", "0", "--dataset", "d", "--", "true"],
        ["-N", "2", "--", "true"],
        ["-N", "2", "--dataset", "d"],
        ["-N", "2", "--mount", "/m", "--dataset", "d", "--", "true"],
        ["-N", "2", "--dataset", "d", "--ntasks-per-node", "2", "--", "true"],
        ["-N", "2", "--dataset", "d", "--job-name", "a\nb", "--", "true"],
        ["-N", "2", "--dataset", "d", "--directive", "--nodes=7", "--", "true"],
        ["-N", "2", "--dataset", "d", "--mode", "torchrun", "--", "true"],
        ["-N", "1", "--dataset", "d", "--mode", "mpi", "--", "true"],
    ],
)
def test_wrong_use_prints_no_script(arguments: list[str]) -> None:
    done = call(*arguments, code=2)
    assert done.stdout == "" and "Traceback" not in done.stderr


def test_warned_children_are_gone(desk: Desk) -> None:
    """What the stand-ins start ends with the script: nothing of this file is left running."""
    job = replace(desk.job, mode="mpi", command=("sh", "-c", "exit 1"))
    with desk.running(job) as process:
        process.communicate(timeout=60)
    wait_for(lambda: not session_members(process.pid), "processes of the script")


def session_members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(entry.parent.name))
    return found


@pytest.mark.parametrize(("mode", "under"), [("run", " run "), ("mpi", " exec ")])
def test_trap_goes_to_what_starts_the_command(mode: str, under: str) -> None:
    job = ScriptJob("slurm", 2, ("./x",), (("--dataset", "d"),), mode=mode, trap=True)
    text = job_script.render(job, Site()).replace("\\\n", "")
    lines = [line for line in text.splitlines() if "--trap" in line]
    assert len(lines) == 1
    assert under in lines[0]
    assert "--trap" not in job_script.render(replace(job, trap=False), Site())
