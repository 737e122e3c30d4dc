"""The commands of the pages for newcomers run, and print what the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak import sampled

ROOT = Path(__file__).resolve().parents[2]
FIRST_JOB = ROOT / "docs" / "first-job.md"
LIMIT_S = 120
# A line that depends on how fast the job was.
PASSING = "fanstore: order of reading known"


def sessions(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields the commands of a page, each with the lines that the page shows below it."""
    for found in re.finditer(
        r"^    \$ (.*)\n((?:    [^$\n].*\n)*)", page.read_text(), re.MULTILINE
    ):
        yield found[1], [line[4:] for line in found[2].splitlines()]


def plain(line: str, here: str) -> str:
    """Returns a line without what differs from one job to the next."""
    line = re.sub(r"\b[0-9a-f]{32}\b", "ID", line.replace(here, "HERE"))
    line = re.sub(r"\b[0-9][0-9.,]*", "N", line)
    return re.sub(r"\b(?:[mu]s|s)\b", "s", re.sub(r"[KG]iB", "MiB", line))


@pytest.mark.parametrize("name", sampled(["first-job", "python-environment"], ["first-job"]))
def test_commands_of_a_page_print_what_it_shows(name: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / f"{name}.md"
    files = re.findall(
        r"Save this as `([^`]+)`[^`]*```python\n(.*?)```", page.read_text(), re.DOTALL
    )
    for file, text in files:
        (tmp_path / file).write_text(text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": path}
    commands = list(sessions(page))
    assert len(commands) >= 4
    for command, shown in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, timeout=LIMIT_S, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}"
        said = [plain(line, str(tmp_path)) for line in done.stdout.splitlines()]
        for line in shown:
            wanted = plain(line, "/tmp/trial")
            assert wanted in said or line.startswith(PASSING), f"{command}: {line!r}: {done.stdout}"


def test_the_readme_shows_the_first_job() -> None:
    (shown,) = sessions(ROOT / "README.md")
    assert shown in list(sessions(FIRST_JOB))
