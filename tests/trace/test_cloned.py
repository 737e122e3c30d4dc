"""A process that shares its parent's memory, and its thread's, counts as exactly as others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from serving import make_stage

from fanstore.trace import read_trace

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[4096], stack[262144] __attribute__((aligned(16)));

static int open_some(void *unused)
{
    for (int i = 0; i < 20000; i++)
        close(open(path, O_RDONLY));
    return 0;
}

int main(int count, char **words)
{
    snprintf(path, sizeof(path), "%s/f03", getenv("FANSTORE_MOUNT_PREFIX"));
    int flags = CLONE_VM | CLONE_FILES | SIGCHLD | (count > 1 ? CLONE_VFORK : 0), status;
    pid_t child = clone(open_some, stack + sizeof(stack), flags, NULL);
    if (child < 0)
        return 1;
    open_some(NULL);
    return waitpid(child, &status, 0) != child || status != 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="the program is in C")
@pytest.mark.parametrize("words", [(), ("vfork",)])
def test_opens_of_a_clone_that_shares_memory_are_counted(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "clones.c").write_text(PROGRAM)
    program = tmp_path / "clones"
    subprocess.run(["cc", "-o", program, tmp_path / "clones.c"], check=True)
    stage = make_stage(tmp_path)
    file = tmp_path / "kept.trace"
    stage.run(stage.dataset(), str(program), *words, options=("--trace", str(file)))
    trace = read_trace(file)
    assert trace.total("opens") == 40_000
    assert len(trace.opens) + int(trace.processes["dropped"].sum()) >= 40_000
    assert trace.problem == ""
