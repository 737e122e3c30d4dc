"""Help texts: their size, their examples, and the options that --help leaves to --help-all."""

from __future__ import annotations

import inspect
import re
import shlex

import click
import pytest

from fanstore.cli import cli
from fanstore.cli.command import Command, split_command

LEAVES = {name: command for name, _, command in cli.leaves()}
SHORT = {name: c for name, c in LEAVES.items() if isinstance(c, Command) and c.common}
OPTION = r"^  (?:-\w, )?(--[\w-]+)"


def root() -> click.Context:
    return click.Context(cli, info_name="fanstore", terminal_width=80, **cli.context_settings)


def context_of(name: str) -> click.Context:
    command = cli.load(name) if name in cli.entries else LEAVES[name]
    return click.Context(command, root(), name, terminal_width=80)


def shown(name: str, option: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of `fanstore NAME --help` or the like on a screen of 80 columns."""
    command = LEAVES[name]
    with pytest.raises(click.exceptions.Exit):
        command.make_context(name, [option], root(), terminal_width=80)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["", *cli.entries, *LEAVES])
def test_help_fits_a_screen_of_80_columns_by_40_lines(name: str) -> None:
    lines = (context_of(name) if name else root()).get_help().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_every_command_is_in_one_section_on_one_line() -> None:
    text = root().get_help()
    for heading in ("Start", "Datasets", "Watch", "Jobs and schedulers", "Study"):
        assert f"\n{heading}:\n" in text
    for name, (_, summary) in cli.entries.items():
        assert re.findall(rf"^  {name} +(.*)$", text, re.MULTILINE) == [summary]


@pytest.mark.parametrize("name", LEAVES)
def test_examples_are_commands_that_can_be_typed(name: str) -> None:
    text = inspect.cleandoc(LEAVES[name].help or "").replace("\\\n", " ")
    _, _, examples = re.split(r"^(Examples?)\b.*:\n", text, maxsplit=1, flags=re.MULTILINE)
    own = 0
    for line in examples.partition("\n\n")[0].splitlines():
        words = shlex.split(line.partition(" > ")[0].rpartition("| ")[2])
        words = words[words.index("fanstore") + 1 :]
        called = next(each for each in LEAVES if words[: len(each.split())] == each.split())
        own += called == name
        ours, _ = split_command(words[len(called.split()) :])
        LEAVES[called].make_parser(context_of(called)).parse_args(ours)
    assert own


@pytest.mark.parametrize("name", SHORT)
def test_help_shows_the_common_options_and_help_all_the_rest(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short, whole = (shown(name, option, capsys) for option in ("--help", "--help-all"))
    options = {o.name: o.opts[-1] for o in LEAVES[name].params if isinstance(o, click.Option)}
    common = {options[each] for each in SHORT[name].common}
    listed = [set(re.findall(OPTION, text, re.MULTILINE)) for text in (short, whole)]
    assert listed == [{*common, "--help-all", "--help"}, {*options.values(), "--help"}]
    assert listed[0] < listed[1]


def test_help_of_run_has_ten_options_and_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(SHORT["run"].common) == 10
    assert len(re.findall(r"fanstore run ", shown("run", "--help", capsys))) == 3  # with the usage
    assert "Exit codes:" not in shown("run", "--help", capsys)
    assert "Exit codes:" in shown("run", "--help-all", capsys)
