"""ldd, and the dynamic linker as a command, with programs of a mount."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Stage, make_stage

SCRIPT = r"""
cd "$1"
ldd ./cat | sed 's/ (0x.*//; s/.*libfanstore.*//' | sort -u; echo "ldd ${PIPESTATUS[0]}"
"$2" --list "$1/cat" > /dev/null; echo "list $?"
"$2" --verify "$1/cat"; echo "verify $?"
"$2" "$1/cat" "$1/file"; echo "run $?"
"$2" --library-path /nowhere ./cat < file; echo "stdin $?"
"$2" "$1/missing" 2>/dev/null; echo "missing $?"
"$2" "$1/file" 2>/dev/null; echo "no program $?"
"$2" --version > /dev/null; echo "version $?"
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def linker_of(program: str) -> str:
    """The dynamic linker that a program names."""
    found = re.search(rb"/lib[\w./-]*/ld-[\w.-]+", Path(program).read_bytes())
    if found is None:
        pytest.skip("cat is not linked dynamically")
    return found.group().decode()


def test_the_linker_finds_programs_of_a_mount(stage: Stage) -> None:
    cat = shutil.which("cat")
    if cat is None or shutil.which("ldd") is None:
        pytest.skip("cat or ldd is not installed")
    source = stage.source(files={"file": b"content\n"})
    shutil.copy(cat, source / "cat")
    command = ["bash", "-c", SCRIPT, "bash"]
    plain = subprocess.run(
        [*command, str(source), linker_of(cat)], capture_output=True, text=True, check=True
    )
    served = stage.run(stage.dataset(source), *command, str(stage.mount), linker_of(cat))
    assert "run 0" in plain.stdout and "libc.so.6" in plain.stdout
    assert served.stdout.split() == plain.stdout.split()
