"""Builds the documentation as a static site, from docs/ and from pages that it generates from the
code: commands, settings, exit codes, metrics and the Python API, and tables of libc's calls and
of the measured figures. Needs no network. A warning fails the
build, such as one about a link or an anchor that leads nowhere.

    python tools/docs.py [DIR]          # the site is DIR/site [build/docs/site]
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import griffe

from fanstore import config, exit_codes
from fanstore.cli import cli
from fanstore.watch.metrics import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
KEYWORD_ONLY = griffe.ParameterKind.keyword_only
COMMANDS_INTRO = """\
`fanstore COMMAND --help` shows the same. Of commands with many options it shows the common ones,
and `--help-all` shows all.
"""
MODULES = ("fanstore", "fanstore.coordinate", "fanstore.order", "fanstore.torch")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(in_cell, line))} |\n" for line in lines)


def in_cell(text: str) -> str:
    """Returns a text for a cell; in code the site needs, and takes, no backslash before a bar."""
    return outside_code(r"[|]", r"\\|", re.sub(r"\s+", " ", text))


def code(option: str) -> str:
    """Returns an option as code that may break between its values."""
    return f"`{re.sub(r'(?<=[^ ])[|](?=[^ ])', ' | ', option)}`"


def escaped(text: str) -> str:
    """Returns plain text so that Markdown shows it as it is; `code` stays code."""
    return outside_code("<", "&lt;", outside_code(r"([\\*_\[])", r"\\\1", text))


def outside_code(pattern: str, instead: str, text: str) -> str:
    parts = re.split(r"(`+[^`]+`+)", text)
    parts[::2] = [re.sub(pattern, instead, part) for part in parts[::2]]
    return "".join(parts)


def paragraphs(text: str) -> str:
    """Returns a help text in Markdown; a paragraph that begins with a line of \\b keeps its
    lines."""
    found = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        kept = paragraph.startswith("\b\n")
        lines = paragraph.removeprefix("\b\n")
        found.append(f"```text\n{lines}\n```" if kept else escaped(lines))
    return "\n\n".join(found) + "\n"


def commands_page() -> str:
    """Returns the page of all commands, with all options."""
    top = click.Context(cli, info_name="fanstore")
    parts = ["# Commands\n", COMMANDS_INTRO]
    for name, summary, command in cli.leaves():
        context = click.Context(command, top, name)
        usage = " ".join(["fanstore", name, *command.collect_usage_pieces(context)])
        parts += [f"## {name}\n", f"{escaped(summary)}\n", f"```text\n{usage}\n```\n"]
        parts.append(paragraphs(command.help or ""))
        records = [
            (code(record[0]), escaped(record[1])) for each in command.get_params(context)
            if isinstance(each, click.Option) and (record := each.get_help_record(context))
        ]  # fmt: skip
        parts.append(table(("option", "meaning"), records))
        if command.epilog:
            parts.append(paragraphs(command.epilog))
    return "\n".join(parts)


def settings_page() -> str:
    """Returns the page of all settings."""
    rows = [
        (code(each.name) + (f"<br>{code(each.option)}" if each.option else ""),
         escaped(each.meaning))
        for each in config.SETTINGS
    ]  # fmt: skip
    intro = inspect.cleandoc(config.__doc__ or "").partition("\n\n")[2].replace("``", "`")
    more = (
        "The table shows the names in the file. `fanstore doctor` shows each value and its source."
    )
    rows_text = table(("name and option", "meaning"), rows)
    return "\n\n".join(["# Settings", intro, more, rows_text])


def exit_codes_page() -> str:
    """Returns the page of the exit codes of `run` and `exec`."""
    intro = "`fanstore run`, and `fanstore exec` if it starts CMD, end with these codes:"
    more = "[Jobs](jobs.md#exit-codes) has those of the other commands."
    codes = table(("code", "meaning"), [(f"`{each}`", text) for each, text in exit_codes.TABLE])
    return "\n\n".join(["# Exit codes", intro, codes, exit_codes.COLLISIONS, more, ""])


def metrics_page() -> str:
    """Returns the page of all metrics for Prometheus."""
    rows = [(f"`{each.full_name}`", each.kind, escaped(each.help)) for each in FAMILIES]
    intro = "[Monitoring](monitoring.md#prometheus) says how a job serves these metrics."
    return "\n\n".join(["# Metrics", intro, table(("metric", "type", "meaning"), rows)])


def printed(tool: str, *arguments: str) -> str:
    """Returns the output of a tool."""
    return subprocess.check_output([sys.executable, ROOT / tool, *arguments], text=True, cwd=ROOT)


def figures_page() -> str:
    """Returns the page of all measured figures."""
    table = printed("tools/bench/table.py", "docs/performance/results.json")
    explained = "[Performance](../performance.md) explains the rows and columns."
    return f"# Table of figures\n\n{explained}\n\n{table}"


def api_page() -> str:
    """Returns the page of all public names in Python. Imports none of the modules, so the page is
    the same with and without torch."""
    package = griffe.load("fanstore", search_paths=[ROOT])
    parts = ["# Python API\n"]
    for name in MODULES:
        module = package if name == "fanstore" else package[name.partition(".")[2]]
        parts += [f"## {name}\n", docstring(module)]
        for public in sorted(module.exports or []):
            parts += documented(module[str(public)], f"{name}.{public}", 3)
    return "\n".join(parts)


def documented(found: griffe.Object | griffe.Alias, name: str, level: int) -> Iterator[str]:
    """Yields heading, signature and docstring of a name, and those of the methods of a class."""
    thing = found.final_target if isinstance(found, griffe.Alias) else found
    short = name.rpartition(".")[2] if level == 3 else ".".join(name.split(".")[-2:])
    yield f"{'#' * level} {short}\n"
    if isinstance(thing, griffe.Class | griffe.Function):
        yield f"```python\n{signature(thing, short)}\n```\n"
    yield docstring(thing)
    if isinstance(thing, griffe.Class):
        for part, member in thing.all_members.items():
            if not part.startswith("_") and member.has_docstring:
                yield from documented(member, f"{name}.{part}", level + 1)


def signature(thing: griffe.Class | griffe.Function, name: str) -> str:
    """Returns how a name is called, with each argument on a line of its own if they are many."""
    call = thing
    if isinstance(thing, griffe.Class):
        call = thing.all_members.get("__init__", thing)
    if not isinstance(call, griffe.Function):
        return f"class {name}"
    given = [argument(each) for each in call.parameters if each.name != "self"]
    named = [each.name for each in call.parameters if each.kind is KEYWORD_ONLY]
    if named and not any(each.startswith("*") for each in given):
        given.insert(len(given) - len(named), "*")
    returns = f" -> {call.returns}" if call.returns and call is thing else ""
    line = f"{name}({', '.join(given)}){returns}"
    if len(line) < 80:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in given), f"){returns}"])


def argument(given: griffe.Parameter) -> str:
    """Returns an argument as the source has it."""
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    text = stars.get(given.kind, "") + given.name
    if given.annotation is not None:
        text += f": {given.annotation}"
    if given.default is None or text.startswith("*"):
        return text
    return (
        f"{text} = {given.default}" if given.annotation is not None else f"{text}={given.default}"
    )


def docstring(thing: griffe.Object | griffe.Alias) -> str:
    """Returns a docstring in Markdown: each argument on a line of its own, examples as code."""
    text = thing.docstring.value if thing.docstring else ""
    text = re.sub(r"(?m)(?<!\n)^(?=[a-z_, ]+: )", "\n", text)
    parts = [part.rstrip() for part in re.split(r"\n\n+", text)]
    code = ("import ", "with ", ">>> ", "    ")
    return "".join(
        f"```python\n{part}\n```\n\n" if part.startswith(code)
        else re.sub(r"^([a-z_]+(?:, [a-z_]+)*):", r"`\1`:", escaped(part).replace("\\_", "_"))
        + "\n\n" for part in parts
    )  # fmt: skip


def mended(text: str, page: Path) -> str:
    """Returns a page of docs/ for the site: a link to a folder leads to its README.md, and a link
    that shows a file name shows the title of that page instead. The site has no files from outside
    of docs/: of a link to one, only the text remains."""

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if not target.is_relative_to(ROOT / "docs"):
            return match[1]
        if target.is_dir():
            return f"[{match[1]}]({match[2]}README.md)"
        is_named = match[1].endswith(".md") and target.exists()
        return f"[{title(target) if is_named else match[1]}]({match[2]}{match[3] or ''})"

    return re.sub(r"\[([^\]\[]*)\]\(([^)#:]+)(#[^)]*)?\)", link, text)


def title(page: Path) -> str:
    return page.read_text().splitlines()[0].lstrip("# ")


def write_pages(pages: Path) -> None:
    """Copies docs/, and writes the generated pages beside them."""
    shutil.copytree(ROOT / "docs", pages)
    for page in (ROOT / "docs").rglob("*.md"):
        copy = pages / page.relative_to(ROOT / "docs")
        copy.write_text(mended(page.read_text(), page))
    decisions = sorted((pages / "decisions").glob("[0-9]*.md"))
    with open(pages / "decisions" / "README.md", "a") as index:
        for page in decisions:
            index.write(f"\n- [{title(page)}]({page.name})")
    with open(pages / "posix.md", "a") as calls:
        calls.write("\n" + printed("tools/posix_table.py"))
    made = {
        "commands": commands_page(), "settings": settings_page(), "exit-codes": exit_codes_page(),
        "metrics": metrics_page(), "python-api": api_page(),
        "performance/table": figures_page(),
    }  # fmt: skip
    for name, text in made.items():
        (pages / f"{name}.md").write_text(text)
    shutil.copytree(ROOT / "tools" / "site", pages, dirs_exist_ok=True)


def main() -> None:
    work = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT / "build" / "docs"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    write_pages(work / "pages")
    shutil.copy(ROOT / "zensical.toml", work)
    built = [sys.executable, "-m", "zensical", "build", "--strict"]
    if code := subprocess.run(built, cwd=work).returncode:
        sys.exit(code)
    print(f"docs: {work / 'site' / 'index.html'}")


if __name__ == "__main__":
    main()
