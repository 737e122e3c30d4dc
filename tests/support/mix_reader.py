"""Reads files of a mount as a training job does, and compares every byte: the command of
tests/ranks/test_mix.py. Called with a JSON object; see `main`. Ends with 0, 3 where bytes were
wrong, 4 where reads failed, 5 where a worker died."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence

WRONG, FAILED, DIED = 3, 4, 5


def epoch_order(names: list[str], seed: int, rank: int, epoch: int) -> list[str]:
    """Returns the order in which a rank reads in an epoch, the same one in test and reader."""
    order = sorted(names)
    random.Random(f"{seed} {rank} {epoch}").shuffle(order)
    return order


def checked(root: str, name: str, digest: str, pause_s: float) -> int:
    """Reads a file; returns what is wrong with it, as an exit code."""
    time.sleep(pause_s)
    try:
        with open(os.path.join(root, name), "rb") as stream:
            found = hashlib.sha256(stream.read()).hexdigest()
    except OSError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return FAILED
    if found != digest:
        print(f"{name}: WRONG BYTES {found}", file=sys.stderr, flush=True)
        return WRONG
    return 0


def read_part(root: str, names: Sequence[str], digests: Mapping[str, str], pause_s: float) -> int:
    # Wrong bytes are worse than none.
    codes = {checked(root, name, digests[name], pause_s) for name in names} - {0}
    return min(codes, default=0)


def read_plain(
    root: str, order: Sequence[str], digests: Mapping[str, str], workers: int, pause_s: float
) -> int:
    """One epoch by forked processes, each of which reads every so many-th file."""
    if workers == 0:
        return read_part(root, order, digests, pause_s)
    for worker in range(workers):
        if os.fork() == 0:
            os._exit(read_part(root, order[worker::workers], digests, pause_s))
    statuses = [os.wait()[1] for _ in range(workers)]
    codes = [os.waitstatus_to_exitcode(status) for status in statuses]
    found = {DIED if code < 0 else code for code in codes} - {0}
    return min(found, default=0)


def read_torch(
    root: str,
    names: Sequence[str],
    digests: Mapping[str, str],
    workers: int,
    pause_s: float,
    seed: int,
    epochs: int,
) -> int:
    """All epochs by torch's DataLoader."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Files(Dataset):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            self.samples = [(os.path.join(root, name), 0) for name in names]

        def __len__(self) -> int:
            return len(names)

        def __getitem__(self, index: int) -> int:
            return checked(root, names[index], digests[names[index]], pause_s)

    torch.manual_seed(seed)
    loader = DataLoader(Files(), batch_size=4, shuffle=True, num_workers=workers)
    found = set()
    try:
        for _ in range(epochs):
            for batch in loader:
                found |= set(batch.tolist())
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return DIED
    return min(found - {0}, default=0)


def main() -> int:
    """`digests`: by name. `kind`: plain or torch. `resume`: the part of the first epoch that is
    left out, as a job does that goes on in its middle."""
    with open(sys.argv[1]) as stream:
        asked = json.load(stream)
    root, rank = os.environ["FANSTORE_MOUNT_PREFIX"], int(os.environ["FANSTORE_RANK"])
    digests, seed, epochs = asked["digests"], asked["seed"], asked["epochs"]
    how = digests, asked["workers"], asked["pause_s"]
    if asked["kind"] == "torch":
        return read_torch(root, sorted(digests), *how, seed + rank, epochs)
    codes = set()
    for epoch in range(epochs):
        order = epoch_order(list(digests), seed, rank, epoch)
        left_out = int(len(order) * asked["resume"]) if epoch == 0 else 0
        codes.add(read_plain(root, order[left_out:], *how))
    return min(codes - {0}, default=0)


if __name__ == "__main__":
    sys.exit(main())
