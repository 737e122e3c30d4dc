"""What runs together of the cases that make outputs."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arena import NOBODY
from harness import Case
from programs import CASE, CLIENTS

BOTH = ("input", "output")

PYTHON_CASE = re.compile(r"^def ((?:case|served)_\w+)\(", re.M)


@dataclass(frozen=True)
class Set:
    """Cases that run together. kinds: see clients/out_client.py.

    where: "over" mounts over a copy of the tree itself, "nobody" runs as that user.

    volatile: patterns of files whose content holds times or inodes: it is not compared.

    parts: clients in C whose cases run together as this set, each called "part.case"; see
    clients/calls.h.

    others: the shell cases run programs in other languages, with what clients/calls.h describes.
    """

    source: str
    kinds: tuple[str, ...] = BOTH
    shell: tuple[Case, ...] = ()
    volatile: tuple[str, ...] = ()
    where: str = ""
    parts: tuple[str, ...] = ()
    others: bool = False

    @property
    def label(self) -> str:
        return re.sub(r"\W", "_", self.source) + self.where

    @property
    def user(self) -> int | None:
        """Who runs it, where that is not the tests' own user."""
        return NOBODY if self.where == "nobody" else None

    def within(self, case: str, kind: str) -> Path:
        """A case's directory in the tree."""
        return Path("fresh" if kind == "input" else "built") / self.label / case

    def missing(self, case: str) -> list[str]:
        """The programs that it needs and that are not installed."""
        return [program for program in self.needs(case) if shutil.which(program) is None]

    def cases(self) -> list[str]:
        """Names of the cases that both sides run, and of those of FanStore's alone."""
        if self.shell:
            return [case.name for case in self.shell]
        if self.parts:
            return [f"{part}.{case}" for part in self.parts for case in cases_of_part(part)]
        return cases_in(self.source)

    @property
    def reads(self) -> bool:
        """Whether the cases have a directory to read from."""
        return bool(self.parts) or self.others

    def compiled(self) -> list[str]:
        """The sources that are to be compiled."""
        if self.shell or self.source.endswith(".py"):
            return []
        return [f"{part}.c" for part in self.parts] or [self.source]

    def parameters(self) -> list[tuple[str, str]]:
        """(case, kind) for parametrize."""
        return [(case, kind) for case in self.cases() for kind in self.kinds]

    def needs(self, case: str) -> Sequence[str]:
        """Programs that a shell case uses."""
        return next((each.needs for each in self.shell if each.name == case), ())


@functools.cache
def cases_of_part(part: str) -> list[str]:
    """The cases of one client of a set of several."""
    return CASE.findall((CLIENTS / f"{part}.c").read_text())


@functools.cache
def cases_in(source: str) -> list[str]:
    """The cases that a client defines, in its order."""
    text = (CLIENTS / source).read_text()
    if source.endswith(".py"):
        return PYTHON_CASE.findall(text)
    return [f"case_{name}" for name in CASE.findall(text)]
