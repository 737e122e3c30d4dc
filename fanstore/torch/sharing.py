"""Computes how many workers each rank of a node should have. Pure; after Lobster (Liu, Nicolae
and Li, ICPP 2022), sections 4.2 and 4.3, but with processes that both load and prepare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fanstore.policy.curve import Curve


@dataclass
class Rank:
    """The measurements of a rank. work_s: for each number of workers that it had, the seconds that
    a worker was busy with a batch. train_s: seconds between the uses of two batches."""

    work_s: Mapping[int, float]
    train_s: float
    _curve: Curve = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = sorted(self.work_s)
        self._curve = Curve(counts, [self.work_s[count] for count in counts])

    def batch_s(self, workers: int) -> float:
        """Returns how many seconds `workers` workers need for each batch, T_L + T_P; linear between
        measurements."""
        return float(self._curve(workers)) / workers


def shared(ranks: Sequence[Rank], least: int, most: int, total: int) -> list[int]:
    """Returns the number of workers of each rank, from `least` to `most`, and not more than `total`
    in all unless every rank has `least`. Gives one more, again and again, to the rank that is
    latest by T_L + T_P - T_train, until none is late or none may have more. T_train is the time of
    the rank that trains fastest, because the times of the others include waiting for it."""
    train_s = min(rank.train_s for rank in ranks)
    workers = [least] * len(ranks)
    while sum(workers) < total:
        late = {
            number: rank.batch_s(workers[number]) - train_s
            for number, rank in enumerate(ranks)
            if workers[number] < most
        }
        latest = max(late, key=lambda number: late[number], default=None)
        if latest is None or late[latest] <= 0:
            break
        workers[latest] += 1
    return workers
