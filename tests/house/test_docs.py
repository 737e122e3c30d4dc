"""The documentation agrees with what it describes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fanstore import exit_codes

ROOT = Path(__file__).resolve().parents[2]


def test_lists_of_calls_are_up_to_date() -> None:
    command = [sys.executable, ROOT / "tools" / "posix_table.py", "--check"]
    assert subprocess.run(command).returncode == 0


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code forges and the site make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"]
    for page in pages:
        for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            target = page.parent / name if name else page
            assert target.exists(), f"{page}: {name}"
            assert not anchor or anchor in anchors(target), f"{page}: {name}#{anchor}"


def test_pages_install_from_the_sources() -> None:
    """No package index has FanStore: by name, pip can only add extras to what is installed."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for command in re.findall(r"pip (?:install|download) [^`\n#]*", page.read_text()):
            assert not re.search(r"(?<!/)fanstore-fs(?!\[)", command), f"{page}: {command}"
    page = (ROOT / "docs" / "install.md").read_text()
    first = re.findall(r"^    (.*)", page, re.MULTILINE)[:2]
    assert first == ["python3 -m venv venv && . venv/bin/activate", "pip install '.[mpi]'"]


def test_glossary_names_files_that_are_there() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| .* \| `(.*): (.*)` \|$", page, re.MULTILINE)
    assert len(rows) > 60
    for folder, name in rows:
        found = list((ROOT / folder).rglob(name))
        assert len(found) == 1, f"{folder}: {name}: {found}"


def test_exit_codes_are_those_of_the_definition() -> None:
    command = [sys.executable, "-m", "fanstore", "run", "--help-all"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "jobs.md").read_text())
    for code, meaning in exit_codes.TABLE:
        assert f"| {code} | {meaning} |" in page
    assert exit_codes.COLLISIONS in page
    for code, meaning in exit_codes.TABLE:
        assert meaning in re.sub(r"\s+", " ", shown)
        assert re.search(rf"^  +{re.escape(code)} ", shown, re.MULTILINE)
    assert re.sub(r"\s+", " ", exit_codes.COLLISIONS) in re.sub(r"\s+", " ", shown)


def literals(path: Path) -> Iterator[str]:
    """The texts in a source file; what is filled in stands as NUL."""
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [v.value if isinstance(v, ast.Constant) else "\0" for v in node.values]
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    else:
        yield from re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text())


def test_quoted_messages_are_the_programs_own() -> None:
    sources = [*(ROOT / "fanstore").rglob("*.py"), *(ROOT / "csrc").rglob("*.c")]
    texts = "\n".join(text for path in sources for text in literals(path))
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    quoted = re.findall(r"^> (.*)$", page, re.MULTILINE)
    assert len(quoted) > 50
    for line in quoted:
        for words in re.split(r"\.\.\.", line):
            said = words.strip(" :;,().")
            assert said in texts, f"{line!r}: {said!r} is said nowhere"
        assert re.search(r"[a-z]{2}", line), line
