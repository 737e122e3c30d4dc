"""Prints the table of libc's calls, in Markdown, for the page docs/posix.md of the site.

    posix_table.py          prints the table
    posix_table.py --check  prints each problem on a line; exit code 1 if there is any

The table is made from calls.def (the intercepted calls) and surface.txt (calls that need not be
intercepted). It leaves out calls that are passed through. The check also compares calls.def with
the built library, and both lists with the libc of this machine: it reports names of a newer libc
that are in neither list, so that somebody decides about them."""

from __future__ import annotations

import argparse
import fnmatch
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALLS = ROOT / "csrc" / "preload" / "calls.def"
SURFACE = ROOT / "csrc" / "preload" / "surface.txt"
LIBRARY = ROOT / "fanstore" / "_native" / "libfanstore_preload.so"

CALL = re.compile(
    r"^FAN_(CALL|SAME|OF_FILE|FORM|CHECKED|SYSCALL|OLD|OLD_FORM)"
    r'\((\w+),\s+(\w+)(?:\("([^"]*)"\))?',
    re.MULTILINE,
)
SECTION = re.compile(r"\[([^]]+)\]\s*(.*)")
ERRNO = re.compile(r"E[A-Z0-9]+\b")
TREATMENT = {
    "EMULATED": "emulated",
    "CHANGES": "emulated",
    "MATERIALISED": "materialised",
    "PASSED": "passed through",
    "REFUSED": "refused",
}
REMARK = {"CHANGES": "done for outputs; for inputs EROFS, or the kernel's earlier error"}
TREATMENTS = ("passed through", "refused", "not reached")
UNRELATED = "unrelated"
UNSHOWN = ("passed through", UNRELATED)
FUNCTION_KINDS = "TWiVu"


@dataclass(frozen=True)
class Row:
    """Calls that are treated in the same way."""

    names: tuple[str, ...]
    treatment: str
    remark: str


def intercepted(definitions: str) -> Iterator[Row]:
    """Yields the rows of calls.def: for each of its paragraphs, a row for each way to treat a
    call."""
    for paragraph in re.split(r"\n\s*\n", definitions):
        rows: dict[tuple[str, str], list[str]] = {}
        for kind, name, how, remark in CALL.findall(paragraph):
            if kind == "OF_FILE":
                how, remark = "PASSED", f"{how} of an input"
            rows.setdefault((TREATMENT[how], remark or REMARK.get(how, "")), []).append(name)
        for (treatment, remark), names in rows.items():
            yield Row(tuple(names), treatment, remark)


def surface(text: str) -> Iterator[Row]:
    """Yields the rows of surface.txt, including unrelated names and patterns."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    header, names = None, list[str]()
    for line in [*lines, f"[{UNRELATED}]"]:
        found = SECTION.match(line)
        if not found:
            names += line.split()
            continue
        if header and names:
            yield Row(tuple(names), *header)
        header, names = (found[1], found[2]), []


def known_names(row: Row) -> list[str]:
    """Returns the names of a row that programmers know: without libc's own spellings, which begin
    with an underscore, and without those for 64-bit offsets beside the plain ones."""
    names = [name for name in row.names if not name.startswith("_")]
    return [name for name in names if "64" not in name or name.replace("64", "") not in names]


def table(rows: Iterable[Row]) -> str:
    """Returns the table in Markdown: the calls that a mount answers otherwise than libc."""
    shown = [(known_names(row), row) for row in rows if row.treatment not in UNSHOWN]
    lines = [
        f"| {' '.join(f'`{name}`' for name in names)} | {row.treatment} | {row.remark} |"
        for names, row in shown
        if names
    ]
    return "\n".join(["| calls | treatment | remark |", "| --- | --- | --- |", *lines])


def wrong_rows(rows: Iterable[Row]) -> Iterator[str]:
    """Yields mistakes within the lists."""
    seen = set[str]()
    for row in rows:
        if row.treatment not in (*TREATMENT.values(), *TREATMENTS, UNRELATED):
            yield f"{row.treatment}: no such treatment"
        if row.treatment == "refused" and not ERRNO.match(row.remark):
            yield f"{row.names[0]}: a refused call's remark begins with the errno"
        for name in row.names:
            if name in seen:
                yield f"{name}: listed twice"
            if row.treatment != UNRELATED and not name.isidentifier():
                yield f"{name}: a pattern, which only [{UNRELATED}] may hold"
            seen.add(name)


def unlisted(exported: Iterable[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yields the names of a libc that are in no row."""
    names, patterns = set[str](), list[str]()
    for row in rows:
        names.update(name for name in row.names if name.isidentifier())
        patterns += [name for name in row.names if not name.isidentifier()]
    for name in sorted(set(exported) - names):
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            yield f"{name}: of libc, in neither {CALLS.name} nor {SURFACE.name}"


def unlike(exported: set[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yields the names that only one of the built library and calls.def has."""
    listed = {name for row in rows for name in row.names}
    for name in sorted(exported ^ listed):
        lacks = CALLS.name if name in exported else LIBRARY.name
        yield f"{name}: not in {lacks}"


def exports(library: Path) -> set[str]:
    """Returns the functions that a library exports, except FanStore's own; empty if nm(1) is
    missing."""
    nm = shutil.which("nm")
    if nm is None:
        return set()
    listed = subprocess.run(
        [nm, "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    fields = [line.split() for line in listed.splitlines()]
    symbols = [f[2] for f in fields if len(f) == 3 and f[1] in FUNCTION_KINDS]
    names = {name.partition("@")[0] for name in symbols if "@GLIBC_PRIVATE" not in name}
    return {name for name in names if not name.startswith("fanstore_")}


def libc_path() -> Path | None:
    """Returns the libc that this process uses, if it is glibc."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libc.so.6"):
            return Path(line[line.index("/") :])
    return None


def problems() -> Iterator[str]:
    """Yields all problems that --check reports."""
    ours = list(intercepted(CALLS.read_text()))
    rows = [*ours, *surface(SURFACE.read_text())]
    yield from wrong_rows(rows)
    libc = libc_path()
    if libc is not None:
        yield from unlisted(exports(libc), rows)
    built = exports(LIBRARY) if LIBRARY.exists() else set()
    if built:
        yield from unlike(built, ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is wrong")
    arguments = parser.parse_args()
    if arguments.check:
        found = list(problems())
        for problem in found:
            print(problem, file=sys.stderr)
        return int(bool(found))
    print(table([*intercepted(CALLS.read_text()), *surface(SURFACE.read_text())]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
