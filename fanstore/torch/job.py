"""All epochs of a training as one object, which fixes their order when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data.distributed import DistributedSampler

from fanstore.errors import UsageError
from fanstore.policy import checks
from fanstore.torch.loader import DataLoader
from fanstore.torch.samplers.base import agreed_seed, replicas_and_rank

_OWN = {"sampler", "batch_sampler", "shuffle"}  # arguments that a Job sets itself
_STATE = {"epoch", "epochs", "seed", "loader"}


class Job:
    """The epochs of a training over all ranks, in an order drawn from a seed, after the Job of
    NoPFS (Dryden et al., SC 2021, section 5.3).

        for batches in Job(dataset, 64, epochs=90, seed=1, drop_last=True, num_workers=8):
            for batch in batches:
                ...

    dataset: a map-style dataset. batch_size: samples of a batch of each rank. epochs: how many
    there are, 1 or more. seed: of the order, from 0; None: rank 0 draws one from torch's generator
    for all ranks. drop_last: whether samples that do not fill a batch on each rank are left out, as
    DistributedSampler and DataLoader do. num_replicas, rank: the number of ranks, and this rank; by
    default those of torch.distributed, else one rank. options: other arguments of
    fanstore.torch.DataLoader.

    Iterating yields, for each epoch that is left, one iterable of batches; its len() is their
    number. The orders are those of torch's DistributedSampler with set_epoch. From them and the
    number of epochs, a job of FanStore knows the next reads, and when there are none.

    Raises UsageError for an option that sets the order, ValueError for numbers out of range, and
    the errors of DataLoader.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        epochs: int,
        *,
        seed: int | None = None,
        drop_last: bool = False,
        num_replicas: int | None = None,
        rank: int | None = None,
        **options: Any,
    ) -> None:
        if _OWN & options.keys():
            said = ", ".join(sorted(_OWN & options.keys()))
            raise UsageError(f"a Job has an order of its own; leave {said} out")
        ranks, own = replicas_and_rank(num_replicas, rank)
        self.epochs = checks.integer("epochs", epochs, 1)
        self.seed = agreed_seed(ranks) if seed is None else checks.seed_of_epochs(seed, 0)
        self.epoch = 0
        self._sampler = _EpochsOfJob(self.epochs, dataset, ranks, own, self.seed, drop_last)
        self.loader = DataLoader(
            dataset, batch_size, sampler=self._sampler, drop_last=drop_last, **options
        )

    def __len__(self) -> int:
        """Returns how many epochs are left, including the current one."""
        return self.epochs - self.epoch

    def __iter__(self) -> Iterator[DataLoader]:
        while self.epoch < self.epochs:
            self._sampler.set_epoch(self.epoch)
            yield self.loader
            self.loader.leave_epoch()
            self.epoch += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the training at the present batch, for torch.save."""
        return {
            "epoch": self.epoch + self.loader.is_epoch_over, "epochs": self.epochs,
            "seed": self.seed, "loader": self.loader.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the job continue from `state`, with the batch after the last one that was yielded.
        Raises UsageError for a state of a job with another seed, number of epochs, samples or batch
        size."""
        if not isinstance(state, dict) or set(state) != _STATE:
            raise UsageError("the state is none that fanstore.torch.Job.state_dict returned")
        then, now = (state["seed"], state["epochs"]), (self.seed, self.epochs)
        if then != now:
            raise UsageError(
                f"the state is of a job with seed {then[0]} and {then[1]} epochs; "
                f"this one has seed {now[0]} and {now[1]}"
            )
        self.loader.load_state_dict(state["loader"])
        self.epoch = state["epoch"]


class _EpochsOfJob(DistributedSampler):
    """A DistributedSampler that knows which epoch is the last one, for fanstore.in_job."""

    def __init__(
        self, epochs: int, dataset: Any, ranks: int, rank: int, seed: int, drop_last: bool
    ) -> None:
        super().__init__(
            dataset, ranks, rank, seed=seed, drop_last=checks.flag("drop_last", drop_last)
        )
        self._epochs = epochs
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch that begins; the first one is 0."""
        super().set_epoch(epoch)
        # No property: the code that watches the loader reads attributes, and runs no code of it.
        self.is_last_epoch = epoch + 1 >= self._epochs
