"""The exceptions of FanStore. The command line prints the message and exits with the exception's
exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fanstore import exit_codes
from fanstore.wording import counted

# At most this many names of one kind of problem are listed; the rest are only counted.
SHOWN_MAX = 1000


class FanstoreError(Exception):
    """The base class of FanStore's exceptions. The message says what failed and what to do."""

    exit_code = exit_codes.FAILED


class UsageError(FanstoreError):
    """The user asked for something that is not valid or not allowed."""

    exit_code = exit_codes.USAGE


class DatasetDamaged(FanstoreError):
    """A file of a dataset is damaged or missing. file: its path. field: the damaged part. offset:
    where that part begins in the file, in bytes. reason: how it is damaged."""

    exit_code = exit_codes.DAMAGED

    def __init__(
        self, file: str | os.PathLike[str], field: str, offset: int, reason: str = "damaged"
    ) -> None:
        super().__init__(f"{os.fspath(file)}: {field} at offset {offset}: {reason}")
        self.file = os.fspath(file)
        self.field = field
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[DatasetDamaged], tuple[str, str, int, str]]:
        # Pickles it for other processes.
        return type(self), (self.file, self.field, self.offset, self.reason)


class DatasetIncomplete(FanstoreError):
    """A command could not do all its work because a dataset is damaged. findings: one line each."""

    exit_code = DatasetDamaged.exit_code

    def __init__(self, dataset: str | os.PathLike[str], findings: Sequence[str]) -> None:
        lines = [*findings[:SHOWN_MAX]]
        if len(findings) > SHOWN_MAX:
            lines.append(f"... and {len(findings) - SHOWN_MAX} more")
        super().__init__(f"{os.fspath(dataset)}: damaged:\n  " + "\n  ".join(lines))


class SourceProblems(FanstoreError):
    """Entries of a source cannot be packed; `problems` holds (relpath, reason) for each."""

    def __init__(self, problems: Sequence[tuple[bytes, str]]) -> None:
        lines = [f"{show_path(path)}: {reason}" for path, reason in problems[:SHOWN_MAX]]
        if len(problems) > SHOWN_MAX:
            lines.append(f"... and {len(problems) - SHOWN_MAX} more")
        count = counted(len(problems), "entry")
        hint = "nothing was written (--skip-unreadable leaves them out)"
        super().__init__(f"{count} cannot be packed; {hint}\n  " + "\n  ".join(lines))
        self.problems = list(problems)


def show_path(path: bytes) -> str:
    """Returns a path as one printable line, whatever bytes it contains."""
    text = path.decode("utf-8", "backslashreplace") or "."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
