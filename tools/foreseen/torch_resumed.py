# does: resumed by hand: the first batches of an epoch left out, then a sampler that begins later
from itertools import islice

import torch
from files import BATCH, EPOCHS, WORKERS, Files, train
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler


class Later(Sampler):
    """The order of one epoch, from a place on."""

    def __init__(self, count: int, begin: int) -> None:
        self.count, self.begin, self.epoch = count, begin, 0

    def __len__(self) -> int:
        return self.count - self.begin

    def __iter__(self):
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(self.epoch))
        yield from order[self.begin :].tolist()
        self.begin, self.epoch = 0, self.epoch + 1


class Skipping(BatchSampler):
    """Leaves out the first batches, as accelerate's skip_first_batches does."""

    def __iter__(self):
        return islice(super().__iter__(), len(self) // 3, None)


files = Files()
batches = Skipping(RandomSampler(files), BATCH, False)
train(DataLoader(files, batch_sampler=batches, num_workers=WORKERS), 1)
sampler = Later(len(files), len(files) // 3)
train(DataLoader(files, BATCH, sampler=sampler, num_workers=WORKERS), EPOCHS - 1)
