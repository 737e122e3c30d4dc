"""One rank of a job of ranks.py: reads at the same time as the other ranks, and writes its answers.

    rank_side.py READER KIND RANKS ROUNDS MEETING

Before each round the ranks meet in the directory MEETING, which all of them see."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from readers import Reader

WINDOW_NS = 100_000_000
MEETING_LIMIT_S, LOOK_S = 60, 0.0005


def meet(meeting: Path, number: int, rank: int, ranks: int) -> None:
    """Waits until all ranks have reached this round. Raises TimeoutError."""
    (meeting / f"round-{number}-{rank}").touch()
    until = time.monotonic() + MEETING_LIMIT_S
    while not all((meeting / f"round-{number}-{other}").exists() for other in range(ranks)):
        if time.monotonic() > until:
            raise TimeoutError(f"round {number}: not all of {ranks} ranks came")
        time.sleep(LOOK_S)


def main() -> None:
    program, kind, ranks, rounds, meeting = sys.argv[1:]
    rank = os.environ["FANSTORE_RANK"]
    reader = Reader([program, os.environ["FANSTORE_MOUNT_PREFIX"], rank])
    reader.ask("sum", kind)  # reads every file once, which warms all caches
    answers = []
    for number in range(int(rounds)):
        meet(Path(meeting), number, int(rank), int(ranks))
        reader.send(f"read {kind} 1 {WINDOW_NS}")
        answers.append(reader.receive())
    reader.close()
    Path(meeting, f"answers-{rank}").write_text("\n".join(answers) + "\n")


if __name__ == "__main__":
    main()
