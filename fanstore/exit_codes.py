"""The exit codes of `fanstore run` and `exec`, for --help and docs/jobs.md."""

from __future__ import annotations

import textwrap

USAGE = 2
DAMAGED = 3
FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128  # plus the number of the signal
INTERRUPTED = SIGNALLED + 2

_WIDTH = 68

TABLE = (
    ("any", "CMD ended with it."),
    (str(DAMAGED), "A dataset is damaged; CMD was not started."),
    (
        str(FAILED),
        "FanStore failed, or was used wrongly; or CMD succeeded, but an output is not in the "
        "output directory, the job's directory was removed, or the node daemon died.",
    ),
    (str(NOT_EXECUTABLE), "CMD cannot be executed."),
    (str(NOT_FOUND), "CMD was not found."),
    (
        f"{SIGNALLED}+n",
        "Signal n killed CMD (137: SIGKILL), or came while the datasets were staged "
        "(130: Ctrl-C; 143: SIGTERM).",
    ),
)
COLLISIONS = (
    "CMD may end with each of these itself. A code of FanStore's own comes with a line on stderr "
    "that begins with `fanstore` and says why, also with --quiet (of several ranks one says it); "
    "without one it is CMD's."
)


def help_text() -> str:
    """Returns the table of exit codes as text for --help."""
    rows = "\n".join(f"  {code:<7}{line}" for row in TABLE for code, line in _lines(*row))
    return f"\b\nExit codes:\n{rows}\n\n{COLLISIONS}"


def _lines(code: str, meaning: str) -> list[tuple[str, str]]:
    lines = textwrap.wrap(meaning, _WIDTH)
    return [(code if number == 0 else "", line) for number, line in enumerate(lines)]
