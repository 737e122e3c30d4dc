"""Python with its debug allocators, which find that an audit hook was allocated without them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from serving import make_stage

HELLO = "import email; print('read', len(open(__import__('sys').argv[-1]).read()))"


PLAIN = ("", "-Bs -X utf8")
ASKED = ("-X dev", "-Xdev", "-sB -W ignore -X dev")
VARIABLES = ("PYTHONMALLOC=debug", "PYTHONDEVMODE=1")


@pytest.mark.parametrize(
    ("variable", "options"),
    [PLAIN, *(("", each) for each in ASKED), *((each, PLAIN[1]) for each in VARIABLES)],
)
def test_it_ends_as_it_would(tmp_path: Path, variable: str, options: str) -> None:
    stage = make_stage(tmp_path)
    source = stage.source(files={"a": b"x" * 100})
    command = ["env", *variable.split(), sys.executable, *options.split(), "-c", HELLO]
    done = stage.run(stage.dataset(source), *command, str(stage.mount / "a"))
    assert done.stdout == "read 100\n"
