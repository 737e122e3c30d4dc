"""Keeps the table of intercepted calls in docs/posix.md equal to intercepts.def.

    posix_table.py          writes it
    posix_table.py --check  exit code 1 when it is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "csrc" / "preload" / "intercepts.def"
PAGE = ROOT / "docs" / "posix.md"

BEGIN = "<!-- intercepted calls: begin (tools/posix_table.py) -->"
END = "<!-- intercepted calls: end -->"
INTERCEPT = re.compile(r"^\s*FAN_INTERCEPT\(\s*(\w+)\s*,\s*(\w+)\s*[,)]", re.MULTILINE)
MEANING = {
    "EMULATED": "answered from the index and packs; of outputs, with what the node daemon says",
    "CHANGES": (
        "may make or change something: of outputs done; of inputs EROFS, or the error that "
        "comes first"
    ),
    "MATERIALISED": "a real copy of an input is made first; of outputs the kernel's own",
    "REFUSED": "not to be had under a mount: EOPNOTSUPP",
    "PASSED": "watched and handed on",
}


def table(definitions: str) -> str:
    """The table in Markdown, a row for each way to treat a call."""
    calls: dict[str, list[str]] = {how: [] for how in MEANING}
    for name, how in INTERCEPT.findall(definitions):
        calls[how].append(name)
    rows = [
        f"| {MEANING[how]} | {' '.join(f'`{name}`' for name in names)} |"
        for how, names in calls.items()
        if names
    ]
    return "\n".join(["| treatment | calls |", "| --- | --- |", *rows])


def with_table(page: str, definitions: str) -> str:
    """The page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE}: the marks of the table are missing")
    return f"{before}{BEGIN}\n{table(definitions)}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    fresh = with_table(page, LIST.read_text())
    if arguments.check:
        if page != fresh:
            print(f"{PAGE}: out of date; run tools/posix_table.py", file=sys.stderr)
        return int(page != fresh)
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
