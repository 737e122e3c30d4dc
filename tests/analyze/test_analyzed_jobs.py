"""Analyses of whole jobs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mpiexec import MPIEXEC, needs_ranks
from serving import Stage, make_stage, wait_for
from slow import SlowTree
from slow_tree import needs_fuse

from fanstore.errors import FanstoreError
from fanstore.study.analyze.aside import problem
from fanstore.study.analyze.phase import AnalysisRequest
from fanstore.study.analyze.run import Analyzer

_TOOLS = Path(__file__).resolve().parents[2] / "tools"
_JOB = str(_TOOLS / "analyzed" / "sleeping_job.py")
NO_NAMESPACE = problem()
_FILES, _FILE_BYTES = 160, 50_000
_PLAIN = (
    "import os, sys, time\n"
    "end_s = time.monotonic() + 2\n"
    "while time.monotonic() < end_s:\n"
    "    for name in sorted(os.listdir(sys.argv[1])):\n"
    "        with open(os.path.join(sys.argv[1], name), 'rb') as stream:\n"
    "            stream.read()\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    files = {f"{n:03}": os.urandom(_FILE_BYTES) for n in range(_FILES)}
    stage.dataset(stage.source(files=files))
    return stage


def analysis_words(
    stage: Stage, *command: str, options: tuple[str, ...] = (), out: str = "", dataset: str = "data"
) -> tuple[str, ...]:
    where = ("--dataset", str(stage.path / dataset), "--mount", str(stage.path / "plain"))
    options = (*(("--writes", "real") if NO_NAMESPACE else ()), *options)
    return (
        "study",
        "analyze",
        "--out",
        out or str(stage.path / "out"),
        *options,
        *where,
        "--",
        *command,
    )


def analyse(
    stage: Stage, *job: str, options: tuple[str, ...] = (), dataset: str = "data"
) -> subprocess.CompletedProcess[str]:
    """An analysis to its end. Its six runs may take minutes on a busy machine."""
    words = analysis_words(stage, *job, options=options, out="out", dataset=dataset)
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", *words],
        env=stage.env, capture_output=True, text=True, timeout=600, check=False, cwd=stage.path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_files_of_a_phase_have_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's processes write there from wherever they are; --out is relative by default."""
    seen = []

    class Stopped(Analyzer):
        def _job(self, directory: Path) -> None:
            seen.append(directory)
            raise FanstoreError("seen")

    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    with pytest.raises(FanstoreError, match="seen"):
        Stopped(AnalysisRequest((), (), (), 1, 1.0), Path("out"), print).run()
    assert seen[0].is_absolute()


def analysis_of(stage: Stage) -> dict[str, Any]:
    told = json.loads((stage.path / "out" / "analysis.json").read_text())
    assert isinstance(told, dict)
    return told


def rates_of(told: dict[str, Any]) -> dict[str, float]:
    return {name: each["samples_per_s"] for name, each in told["rates"].items()}


@needs_fuse
@pytest.mark.parametrize(
    ("train_s", "prepare_s", "bytes_per_s", "limit"),
    [
        pytest.param(0.03, 0.001, 100_000_000, "Training is the limit", marks=pytest.mark.soak),
        pytest.param(
            0.001, 0.06, 100_000_000, "Training waits for preparation", marks=pytest.mark.soak
        ),
        (0.001, 0.001, 1_000_000, "Training waits for reading"),
    ],
)
def test_the_slowest_stage_is_found(
    stage: Stage, train_s: float, prepare_s: float, bytes_per_s: int, limit: str
) -> None:
    pytest.importorskip("torch")
    job = (sys.executable, _JOB, str(stage.path / "plain"), str(train_s), str(prepare_s), "2", "3")
    before = sorted(path.name for path in (stage.path / "plain").iterdir())
    slow = SlowTree(
        stage.path / "data", stage.path / "slow", total_bytes_per_s=bytes_per_s, direct=True
    )
    with slow:
        said = analyse(stage, *job, options=("--steps", "16"), dataset="slow")
    told = analysis_of(stage)
    rates = rates_of(told)
    assert told["whole"], told["notes"]
    assert set(rates) == {"job", "ingest", "prepare", "memory", "storage", "cache"}
    assert limit in said.stdout
    # What sleeps cannot be faster than its sleep, however busy the machine is.
    assert rates["ingest"] <= 1.02 / train_s
    assert rates["prepare"] <= 1.02 * 2 / prepare_s
    assert rates["storage"] <= 1.02 * bytes_per_s / _FILE_BYTES
    assert set(told["processor_s"]) == {"ingest", "prepare"}
    assert told["workers"] == 2
    assert (told["samples"], told["sample_bytes"]) == (_FILES, _FILE_BYTES)
    # Nothing is left but the report, and checkpoints went nowhere.
    assert sorted(path.name for path in (stage.path / "plain").iterdir()) == before
    assert all(path.name.startswith("analysis.") for path in (stage.path / "out").iterdir())


@pytest.mark.soak
def test_a_job_is_after_an_analysis_as_before(stage: Stage) -> None:
    pytest.importorskip("torch")
    job = (sys.executable, _JOB, str(stage.path / "plain"), "0.001", "0.001", "2", "2")

    def losses() -> list[str]:
        where = ("--dataset", str(stage.path / "data"), "--mount", str(stage.path / "plain"))
        said = subprocess.run(
            [sys.executable, "-m", "fanstore", "run", *where, "--output-dir",
             str(stage.path / "outputs"), "--", *job],
            env=stage.env, capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        return [line.partition("loss ")[2] for line in said.stdout.splitlines()]

    before = losses()
    # Loaders are seen also where orders are of no account.
    analyse(stage, *job, options=("--steps", "10", "--order", "off"))
    rates = {"job", "ingest", "prepare", "memory", "storage", "cache"}
    assert set(analysis_of(stage)["rates"]) == rates
    assert len(before) == 2
    assert losses() == before


@pytest.mark.soak
def test_a_job_without_torch_has_the_rates_but_that_of_training(stage: Stage) -> None:
    job = (sys.executable, "-c", _PLAIN, str(stage.path / "plain"))
    said = analyse(stage, *job)
    told = analysis_of(stage)
    assert set(told["rates"]) == {"job", "prepare", "storage", "cache"}
    assert told["whole"]
    assert "no DataLoader of torch was seen" in said.stdout
    assert "How fast the job trains was not seen" in said.stdout or "no verdict" in said.stdout


@pytest.mark.soak
def test_a_job_without_torch_may_be_told_the_rate_of_training(stage: Stage) -> None:
    job = (sys.executable, "-c", _PLAIN, str(stage.path / "plain"))
    said = analyse(stage, *job, options=("--ingest", "0.5"))
    assert "samples/s. Training is the limit" in said.stdout.splitlines()[0]
    assert "was not seen" not in said.stdout


@pytest.mark.skipif(bool(NO_NAMESPACE), reason=f"no mount namespace here: {NO_NAMESPACE}")
@pytest.mark.soak
@pytest.mark.parametrize("all_of_it", [False, True])
def test_what_a_job_writes_is_never_over_what_is_there(stage: Stage, all_of_it: bool) -> None:
    covering = str(stage.path) if all_of_it else "word"  # with what FanStore itself keeps there
    home, named, work = (stage.path / name for name in ("home", "named", "work"))
    for each in (home, named, work):
        each.mkdir()
        (each / "checkpoint").write_text("real")
    writes = (
        "import os, sys\n"
        "paths = ['checkpoint', os.path.expanduser('~/checkpoint'), sys.argv[1] + '/checkpoint']\n"
        "for path in paths:\n"
        "    assert open(path).read() == 'real'\n"
        "    open(path, 'w').write('from the analysis')\n"
        "    os.remove(path)\n"
        "open('new', 'w').close()\n"
    )
    job = (sys.executable, "-c", writes + _PLAIN.replace("argv[1]", "argv[2]"))
    words = analysis_words(stage, *job, str(named), str(stage.path / "plain"), covering)
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", *words], cwd=work, capture_output=True, text=True,
        env={**stage.env, "HOME": str(home)}, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert analysis_of(stage)["whole"]
    for each in (home, named, work):
        assert (each / "checkpoint").read_text() == "real"
    assert not (work / "new").exists()
    assert not list(stage.local.rglob("aside"))


def test_an_interrupted_analysis_says_so(stage: Stage) -> None:
    job = (sys.executable, "-c", "import sys, time; open(sys.argv[1]).read(0); time.sleep(600)")
    words = analysis_words(stage, *job, str(stage.path / "plain" / "000"))
    with stage.running(*words) as process:
        logs = stage.path / "out"
        wait_for(lambda: list(logs.glob(".scratch-*/job/trace*")), "the first phase")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "PARTIAL: the analysis was broken off" in said
    told = analysis_of(stage)
    assert not told["whole"]
    assert "broken off: it was interrupted" in told["notes"]
    assert not list(logs.glob(".scratch-*"))


# Phases that last 2 seconds, by what was measured before them.
@pytest.mark.parametrize(
    ("phase", "measured"),
    [
        pytest.param("prepare", {"job"}, marks=pytest.mark.soak),
        pytest.param("cache", {"job", "prepare", "storage"}, marks=pytest.mark.soak),
    ],
)
def test_an_analysis_that_is_interrupted_later_keeps_what_it_has(
    stage: Stage, phase: str, measured: set[str]
) -> None:
    words = analysis_words(stage, sys.executable, "-c", _PLAIN, str(stage.path / "plain"))
    with stage.running(*words) as process:
        logs = stage.path / "out"
        wait_for(lambda: list(logs.glob(f".scratch-*/{phase}")), f"the phase {phase}")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "PARTIAL: the analysis was broken off" in said
    told = analysis_of(stage)
    assert set(told["rates"]) == measured
    assert not told["whole"]
    assert not list(logs.glob(".scratch-*"))


@needs_ranks
@pytest.mark.soak
def test_ranks_are_started_by_a_launcher_and_add_up(stage: Stage) -> None:
    script = _PLAIN.replace("sys.argv[1]", "os.environ['FANSTORE_MOUNT_PREFIX']")
    where = ("--dataset", str(stage.path / "data"), "--mount", str(stage.path / "mount-{rank}"))
    local = ("--local-dir", str(stage.path / "node-{rank}"), "--out", str(stage.path / "out"))
    for rank in range(2):
        (stage.path / f"node-{rank}").mkdir()
    writes = ("--writes", "real") if NO_NAMESPACE else ()
    launcher = ("--launcher", f"{shlex.quote(str(MPIEXEC))} -n 2")
    words = (
        "study",
        "analyze",
        *launcher,
        *writes,
        *local,
        *where,
        "--",
        sys.executable,
        "-c",
        script,
    )
    done = subprocess.run([sys.executable, "-m", "fanstore", *words], env=stage.env, text=True,
                          capture_output=True, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(analysis_of(stage)["rates"]) == {"job", "prepare", "storage", "cache"}


def test_a_job_that_fails_is_said_with_its_words(stage: Stage) -> None:
    job = (sys.executable, "-c", "raise SystemExit('no such model')")
    said = stage.call(*analysis_words(stage, *job), code=125)
    assert "no such model" in said.stderr
    assert not (stage.path / "out").exists()


def test_options_of_a_whole_job_are_refused(stage: Stage) -> None:
    said = stage.call(*analysis_words(stage, "true", options=("--trace", "off")), code=2)
    assert "--trace is of a whole job" in said.stderr
    said = stage.call(*analysis_words(stage, "true", options=("--launcher", "x'")), code=2)
    assert "No closing quotation" in said.stderr
