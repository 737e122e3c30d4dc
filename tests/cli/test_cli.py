"""The command line as a whole: help, versions, errors as one line with their exit codes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from soak import sampled

from fanstore import __version__, cli, errors
from fanstore.cli.lazy_group import LazyGroup
from fanstore.wording import counted


def fanstore(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fanstore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_help_lists_every_subcommand() -> None:
    result = fanstore("--help")
    assert result.returncode == 0
    for name in cli.cli.entries:
        assert f"  {name} " in result.stdout


def test_version() -> None:
    assert fanstore("--version").stdout == f"fanstore, version {__version__}\n"


def test_help_loads_no_heavy_module() -> None:
    code = (
        "import sys; from fanstore import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'cffi', 'fanstore._native') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", [*cli.cli.entries, *(name for name, *_ in cli.cli.leaves())])
def test_every_subcommand_has_help(name: str) -> None:
    """In this process: 44 starts of Python would show no more."""
    result = CliRunner().invoke(cli.cli, [*name.split(), "--help"], prog_name="fanstore")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: fanstore {name}")


PRINTING = [
    ("--help",), ("ls", "{data}"), ("info", "{data}"), ("verify", "{data}"), ("doctor", "--json"),
    ("script", "-N", "2", "--dataset", "{data}", "--", "true"),
    ("dataset", "rebuild-index", "{data}"),
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "source").mkdir()
    for number in range(3000):  # more than a buffer of names
        (folder / "source" / f"a name of some length {number}").touch()
    assert fanstore("prepare", str(folder / "source"), str(folder / "data")).returncode == 0
    return folder / "data"


@pytest.mark.parametrize(
    "redirection", sampled([">&-", ">/dev/full", "| head -c 0"], [">/dev/full"])
)
def test_output_that_cannot_be_written(data: Path, redirection: str) -> None:
    """As with coreutils: an error that is named, or the quiet end by SIGPIPE."""
    is_pipe = redirection.startswith("|")
    # The left end of the pipe waits until nobody reads.
    script = "sleep 0.5; " if is_pipe else ""
    shell = f'{{ {script}"$@"; echo $? >&2; }} {redirection}'
    running = []
    for arguments in PRINTING:
        filled = [word.format(data=data) for word in arguments]
        argv = ["bash", "-c", shell, "sh", sys.executable, "-m", "fanstore", *filled]
        running.append(subprocess.Popen(argv, stderr=subprocess.PIPE, text=True))
    for arguments, process in zip(PRINTING, running, strict=True):
        *told, code = process.communicate(timeout=120)[1].splitlines()
        if is_pipe:
            assert (told, code) == ([], "141"), arguments
            continue
        reason = "Bad file descriptor" if redirection == ">&-" else "No space left on device"
        assert told == [f"fanstore: error: standard output: {reason}"], arguments
        assert code == "125"


def test_a_closed_standard_error_does_not_reach_the_output(data: Path) -> None:
    argv = [sys.executable, "-m", "fanstore", "ls", str(data), "no/such"]
    done = subprocess.run(["bash", "-c", '"$@" 2>&-', "sh", *argv], stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")


def test_unknown_subcommand_is_a_usage_error() -> None:
    assert fanstore("frobnicate").returncode == 2


def test_wrong_use_of_run_is_a_failure_of_its_own() -> None:
    assert fanstore("run").returncode == 125
    assert fanstore("run", "--no-such-option").returncode == 125


def exit_code_when(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    @click.command()
    @click.argument("names", nargs=-1)
    def command(names: tuple[str, ...]) -> None:
        raise error

    monkeypatch.setattr(LazyGroup, "get_command", lambda *_: command)
    with pytest.raises(SystemExit) as caught:
        cli.main(["info", "named"])
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_when(monkeypatch, errors.FanstoreError("what went wrong")) == 125
    assert capsys.readouterr().err == "fanstore: error: what went wrong\n"
    damaged = errors.DatasetDamaged("index.fsi", "header.magic", 0)
    assert exit_code_when(monkeypatch, damaged) == 3
    assert exit_code_when(monkeypatch, KeyboardInterrupt()) == 130
    capsys.readouterr()
    assert exit_code_when(monkeypatch, FileNotFoundError(2, "No such file", "named")) == 2
    assert capsys.readouterr().err == "fanstore: error: named: No such file\n"
    assert exit_code_when(monkeypatch, FileNotFoundError(2, "No such file", "x")) == 125
    assert exit_code_when(monkeypatch, PermissionError(13, "not allowed", "named")) == 125
    capsys.readouterr()
    assert exit_code_when(monkeypatch, MemoryError()) == 125
    assert capsys.readouterr().err == "fanstore: error: out of memory\n"


NONE = "none"  # a path where nothing is
FILE = shlex.quote(__file__)


@pytest.mark.parametrize(("code", "words", "said"), [
    (2, "runn", "Is 'run' meant?"),
    (125, "run --dataset", "Option '--dataset' requires an argument"),
    (125, "run --dataset -- true", "Option '--dataset' requires an argument"),
    (125, f"run --dataset {NONE} true", "Write the command after --: fanstore run ... -- "),
    (125, f"run {NONE} python --data x", "Write the command after --: fanstore run ... -- "),
    (125, f"run --dataset {NONE} --", "Write the command after --: fanstore run ... -- "),
    (125, f"run --dataset {NONE} -- true --help", f"{NONE}: no such directory"),
    (125, "exec true", "Write the command after --: fanstore exec ... -- "),
    (125, f"run --dataset {NONE} -- true", f"{NONE}: no such directory"),
    (125, f"run --dataset {NONE} --mount= -- true", "one of them is empty"),
    (125, f"run --dataset {NONE} --stage x -- true", "--stage: 'x' is not one of auto, full, plan"),
    (125, f"run --dataset {NONE} --output-dir {NONE}/x -- true", "(--output-dir): cannot be made"),
    (125, "exec -- true", "`fanstore start` start one"),
    (125, "stop --job x", "no job x under "),
    (0, "status --all", "no job here"),
    (2, f"clean --local-dir {NONE}", "no such directory"),
    (125, f"run --dataset {NONE} --local-dir {FILE} -- true", "(--local-dir): not a directory"),
    (2, f"verify {NONE}", f"{NONE}: no such directory"),
    (2, f"study simulate ./{NONE}.toml", f"{NONE}.toml: No such file or directory"),
    (2, f"study whatif {NONE}", "name the directory that `fanstore study analyze` made"),
    (2, f"study whatif {FILE}", "name the directory that `fanstore study analyze` made"),
    (2, f"report {NONE}", "no such file; a trace is kept by"),
    (2, "report .", "is a directory; a trace is kept by"),
    (125, f"status --local-dir {NONE}", "`fanstore start` start one"),
    (125, f"top --local-dir {NONE}", "`fanstore start` start one"),

    (2, f"script -N 2 --site {NONE} --dataset d -- true", f"File '{NONE}' does not exist"),
])  # fmt: skip
def test_mistakes_are_named_with_their_remedy(
    tmp_path: Path, code: int, words: str, said: str
) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FANSTORE", "SLURM"))}
    (tmp_path / "local").mkdir()
    env = {**kept, "FANSTORE_LOCAL_DIR": str(tmp_path / "local")}
    command = [sys.executable, "-m", "fanstore", *shlex.split(words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env,
                          cwd=tmp_path)  # fmt: skip
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code
    assert list((tmp_path / "local").iterdir()) == []


@pytest.mark.parametrize(("words", "variable"), [(("--trap",), "0"), ((), "1")])
def test_the_trap_of_exec_is_an_option_and_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str
) -> None:
    monkeypatch.setenv("FANSTORE_TRAP", variable)
    monkeypatch.setenv("FANSTORE_LOCAL_DIR", str(tmp_path))
    done = fanstore("exec", *words, "--container", "apptainer exec image", "--", "true")
    assert done.returncode == 125
    assert "the trap is not brought into containers" in done.stderr


@pytest.mark.parametrize(("before", "code"), [("", -2), ("trap '' INT; ", 0)])
def test_ctrl_c_while_it_is_loaded_is_no_traceback(tmp_path: Path, before: str, code: int) -> None:
    """Where it is ignored, as under nohup, it stays so."""
    script = "import os, signal, sys; sys.path.pop(0); os.kill(os.getpid(), signal.SIGINT)\n"
    script += "del sys.modules['click']; import click\nsys.modules['click'] = click\n"
    (tmp_path / "click.py").write_text(script)
    fanstore = [sys.executable, "-m", "fanstore", "--version"]
    done = subprocess.run(["sh", "-c", f'{before}exec "$@"', "sh", *fanstore], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "")


def test_nothing_is_loaded_before_ctrl_c_is_quiet() -> None:
    """What the entry point imports at its top is a window in which Ctrl-C shows a traceback."""
    root = str(Path(__file__).parents[2])
    script = f"import signal, sys; sys.path.insert(0, {root!r}); before = set(sys.modules)\n"
    script += "import fanstore.__main__; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.stdout.split() == ["__future__", "fanstore", "fanstore.__main__"], done.stderr


def test_one_of_anything_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"x")
    data, back = str(tmp_path / "data"), str(tmp_path / "back")
    told = fanstore("prepare", str(tmp_path / "source"), data).stdout
    told += fanstore("info", data).stdout + fanstore("verify", data).stdout
    told += fanstore("extract", data, back).stderr
    assert re.search(r"\b1 (files|directories|packs|bytes|entries|links)", told) is None, told
    assert "1 file, 1 byte" in told
    assert [counted(n, "entry") for n in (0, 1, 2000)] == ["0 entries", "1 entry", "2,000 entries"]


def test_a_tilde_that_the_shell_leaves_is_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"x")
    data = str(tmp_path / "data")
    fanstore("prepare", str(tmp_path / "source"), data)
    words = ["--dataset=~/data", "--mount=~/seen", "--local-dir=~/local", "--quiet"]
    told = fanstore("run", *words, "--", "echo", "--out=~/z", "~/y").stdout
    assert told == "--out=~/z ~/y\n"
    told = fanstore("run", *words, "--", "sh", "-c", "echo $FANSTORE_MOUNT_PREFIX").stdout
    assert told == f"{tmp_path}/seen\n"
