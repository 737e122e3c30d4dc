"""A job of a coordination: writes a line for each batch that it prepares, and for each it uses.

usage: coordinate_job.py DIRECTORY NAME JOBS BATCHES EPOCHS [OPTION=VALUE...]
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import numpy as np

from fanstore.coordinate import Coordination, CoordinationLost, join

DIRECTORY, NAME = sys.argv[1:3]
JOBS, BATCHES, EPOCHS = (int(word) for word in sys.argv[3:6])
OPTIONS = dict(word.split("=", 1) for word in sys.argv[6:])
ROOM = 1 << 16


def note(kind: str, text: str) -> None:
    """Appends one line to a file of this job."""
    path = os.path.join(DIRECTORY, f"{kind}-{NAME}")
    with open(path, "a") as stream:
        stream.write(text + "\n")


def prepare(epoch: int, batch: int) -> list[np.ndarray]:
    """A batch that tells whose it is."""
    note("prepared", f"{epoch} {batch}")
    if OPTIONS.get("raise") == NAME and batch >= 3:
        raise ArithmeticError("this transform raises")
    time.sleep(float(OPTIONS.get("pause_s", "0.001")))
    if OPTIONS.get("stall") == NAME:
        time.sleep(60)
    if OPTIONS.get("stop") == NAME:
        os.kill(os.getpid(), signal.SIGSTOP)
    return [np.full((ROOM // 8,), epoch * 10000 + batch), np.arange(3, dtype=np.float32)]


def check_fork(member: Coordination) -> None:
    """A forked child is refused, and its end leaves its parent a member."""
    child = os.fork()
    if child == 0:
        try:
            next(iter(member.epoch()))
        except CoordinationLost:
            member.close()
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


member = join(
    prepare, jobs=JOBS, batches=BATCHES, batch_bytes=int(OPTIONS.get("room", 2 * ROOM)),
    fingerprint={"seed": OPTIONS.get(f"seed-{NAME}", "1")},
    window=int(OPTIONS.get("window", "4")), workers=int(OPTIONS.get("workers", "1")),
    deadline_s=float(OPTIONS.get("deadline_s", "30")), wait_s=float(OPTIONS.get("wait_s", "50")),
)  # fmt: skip
with contextlib.nullcontext() if "open" in OPTIONS else member:
    if OPTIONS.get("fork") == NAME:
        check_fork(member)
    for _ in range(EPOCHS):
        for epoch, batch, (first, second) in member.epoch():
            assert (first == epoch * 10000 + batch).all() and second.tolist() == [0, 1, 2]
            note("used", f"{epoch} {batch}")
