"""Man pages, shell completion and the module file, as the shells and man themselves take them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from inprocess import call

from fanstore import __version__, cli
from fanstore.cli import man
from fanstore.cli.completion import VARIABLE
from fanstore.exit_codes import FAILED

LEAVES = {name: leaf for name, _, leaf in cli.cli.leaves()}


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def fanstore(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fanstore", *arguments]
    environ = {**os.environ, **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    for _ in range(2):  # what an earlier call wrote is replaced
        done = fanstore("site-files", root)
        assert done.returncode == 0, done.stderr
    return root


def test_nothing_else_is_left(root: Path) -> None:
    pages = {f"share/man/man1/{man.title(name)}.1" for name in LEAVES}
    others = {
        "share/man/man1/fanstore.1", "share/bash-completion/completions/fanstore",
        "share/zsh/site-functions/_fanstore", "share/fish/vendor_completions.d/fanstore.fish",
        f"modulefiles/fanstore/{__version__}", "bin/fanstore",
    }  # fmt: skip
    found = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert found == pages | others


def test_link_leads_to_this_installation(root: Path) -> None:
    done = subprocess.run([root / "bin" / "fanstore", "--version"], capture_output=True, text=True)
    assert done.stdout == f"fanstore, version {__version__}\n"


@needs("man")
@needs("groff")
@pytest.mark.parametrize(("name", "leaf"), LEAVES.items())
def test_page_tells_all_that_help_does(root: Path, name: str, leaf: click.Command) -> None:
    """Every word of the whole help is on the page, but for the headings of click's own."""
    page = root / "share" / "man" / "man1" / f"{man.title(name)}.1"
    environ = {**os.environ, "MANWIDTH": "400", "LC_ALL": "C.UTF-8"}
    shown = subprocess.run(["man", "--warnings", "--nj", "--nh", "-l", page],
                           capture_output=True, text=True, env=environ, timeout=60)  # fmt: skip
    assert (shown.returncode, shown.stderr) == (0, "")
    help = "--help-all" if getattr(leaf, "common", ()) else "--help"
    said = call(*name.split(), help).stdout.decode().split()[1:]
    missing = [word for word in said if word not in shown.stdout]
    assert set(missing) <= {"Options:", "Exit", "codes:"}


def test_text_is_no_command_of_mans() -> None:
    @click.command(help=".SH not a heading\n\n'tis a \\fBword\\fR of 1-2")
    @click.option("--odd", help=".TP\n.SH")
    def command(odd: str) -> None: ...

    page = man.page(click.Context(cli.cli), "odd", command, "Odd.")
    assert [line for line in page.splitlines() if line.startswith(".SH")] == [
        ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH SEE ALSO",
    ]  # fmt: skip
    assert "\\&'tis a \\efBword\\efR of 1\\-2" in page


def proposals(*words: str) -> list[str]:
    """What click's script for bash is told: (type, value) of each proposal, joined by a comma."""
    environ = {VARIABLE: "bash_complete", "COMP_CWORD": str(len(words))}
    done = fanstore(**environ, COMP_WORDS=" ".join(("fanstore", *words)))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("scr",), ["plain,script"]),
        (("study", "wh"), ["plain,whatif"]),
        (("study", "calibrate", "--local-dir", "/t"), ["dir,/t"]),
        (("run", "--da"), ["plain,--dataset"]),
        (("run", "--cache-policy", "l"), ["plain,lru"]),
        (("run", "--dataset", "/so"), ["file,/so"]),
        (("run", "--dataset", "d", "--order", "o"), ["plain,off"]),
        (("run", "--dataset", "d", "--order", "/o"), ["file,/o"]),
        (("run", "--dataset", "d", "--", "./tr"), ["file,./tr"]),
        (("script", "--scheduler", "p"), ["plain,pbs"]),
        (("stop", "--job", "x"), []),
        (("ls", "d", "in/the/dataset"), []),
        (("no-such", "x"), []),
    ],
)
def test_proposals_are_told_from_the_help(words: tuple[str, ...], expected: list[str]) -> None:
    assert proposals(*words) == expected


@pytest.mark.parametrize("name", ["prepare", "run", "script"])
def test_every_option_is_proposed(name: str) -> None:
    context = click.Context(cli.cli)
    command = cli.cli.get_command(context, name)
    assert command is not None
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    longs = {word for option in options for word in option.opts if word.startswith("--")}
    assert longs <= {text.partition(",")[2] for text in proposals(name, "--")}


def test_proposing_subcommands_loads_none_of_them() -> None:
    code = (
        "import sys; from fanstore import cli\n"
        "try: cli.main([])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'cffi', 'fanstore.cli.jobs.run') if m in sys.modules])"
    )
    environ = {VARIABLE: "bash_complete", "COMP_CWORD": "1", "COMP_WORDS": "fanstore "}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, **environ})  # fmt: skip
    *proposed, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    assert set(proposed) >= {f"plain,{name}" for name in cli.cli.entries}


def test_bash_proposes_by_the_script(root: Path) -> None:
    script = root / "share" / "bash-completion" / "completions" / "fanstore"
    lines = f"source {script}; COMP_WORDS=(fanstore run --stage l); COMP_CWORD=3\n"
    lines += '_fanstore_completion fanstore; echo "${COMPREPLY[@]}"'
    environ = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, env=environ)
    assert (done.stdout, done.stderr) == ("lazy\n", "")


# What the commands of a module file do to the environment; for Tcl alone.
MODULE_COMMANDS = """\
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {name value} { global env
    set env($name) [expr {[info exists env($name)] ? "$value:$env($name)" : $value}] }
proc append-path {name value} { global env
    set env($name) [expr {[info exists env($name)] ? "$env($name):$value" : $value}] }
source [lindex $argv 0]
foreach name {PATH MANPATH XDG_DATA_DIRS} {
    puts [expr {[info exists env($name)] ? $env($name) : "-"}] }
"""


@needs("tclsh")
def test_module_file_puts_the_program_on_the_path(root: Path, tmp_path: Path) -> None:
    (tmp_path / "module.tcl").write_text(MODULE_COMMANDS)
    file = root / "modulefiles" / "fanstore" / __version__
    assert file.read_text().startswith("#%Module1.0\n")
    expected = {
        (): [f"{root}/bin:/bin", "-", f"{root}/share:/usr/local/share:/usr/share"],
        (("MANPATH", "/m"), ("XDG_DATA_DIRS", "/x")): [
            f"{root}/bin:/bin", f"{root}/share/man:/m", f"{root}/share:/x",
        ],
    }  # fmt: skip
    tclsh = str(shutil.which("tclsh"))
    for given, lines in expected.items():
        words = [tclsh, tmp_path / "module.tcl", file]
        environ = {"PATH": "/bin", **dict(given)}
        done = subprocess.run(words, capture_output=True, text=True, env=environ)
        assert (done.stdout.splitlines(), done.stderr) == (lines, "")


def test_a_program_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fanstore").write_text("mine")
    done = fanstore("site-files", tmp_path)
    assert done.returncode == FAILED
    assert f"{tmp_path}/bin/fanstore: is there, and is not replaced" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.parametrize("name", ["two words", "a:b", "a{b", "a\\b"])
def test_path_that_no_module_file_takes_is_refused(tmp_path: Path, name: str) -> None:
    done = fanstore("site-files", tmp_path / name)
    assert done.returncode == 2 and "a module file takes no path" in done.stderr
    assert list(tmp_path.iterdir()) == []
