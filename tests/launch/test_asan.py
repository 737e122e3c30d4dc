"""Programs with ASan as a shared library run under a job, and ASan finds their faults."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from serving import make_stage

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    char *place = malloc(4);
    FILE *stream = fopen(argv[1], "r");
    int at = fgetc(stream) - '0';
    place[at] = 1;
    int wrong = place[at] != 1;
    free(place);
    fclose(stream);
    return wrong;
}
"""


def test_programs_with_asan(tmp_path: Path) -> None:
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(SOURCE)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    link = [*compiler, "-fsanitize=address", "-o", program, source]
    if subprocess.run(link, capture_output=True).returncode != 0:
        pytest.skip("ASan is not here")
    stage = make_stage(tmp_path)
    dataset = stage.dataset(stage.source(files={"right": b"3", "wrong": b"4"}))
    stage.run(dataset, str(program), f"{stage.mount}/right")
    stage.run(dataset, "sh", "-c", f"{program} {stage.mount}/right; exit $?")
    stage.run(dataset, "env", "ASAN_OPTIONS=detect_leaks=0", str(program), f"{stage.mount}/right")
    stage.run(dataset, "env", "-i", str(program), f"{stage.mount}/right")
    options = {"ASAN_OPTIONS": "exitcode=42:detect_leaks=0"}
    words = ("run", "--dataset", str(dataset), "--mount", str(stage.mount), "--", str(program))
    done = stage.call(*words, f"{stage.mount}/wrong", code=42, **options)
    assert "heap-buffer-overflow" in done.stderr
