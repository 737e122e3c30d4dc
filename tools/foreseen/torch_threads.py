# does: a dataset without a list, which opens its files in threads of its own, the second job
# jobs: 2
from concurrent.futures import ThreadPoolExecutor

import torch
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader, RandomSampler


class Threaded(Files):
    """Each sample has two files, which two threads read."""

    def __init__(self) -> None:
        super().__init__()
        self.by_index = dict(enumerate(self.samples))
        self.readers = None
        del self.samples

    def __len__(self) -> int:
        return len(self.by_index) // 2

    def read(self, number: int):
        return super().__getitem__(number)

    def __getitem__(self, index: int):
        if self.readers is None:
            self.readers = ThreadPoolExecutor(2)
        self.samples = self.by_index
        pairs = list(self.readers.map(self.read, (2 * index, 2 * index + 1)))
        del self.samples
        return pairs[0]


files, chance = Threaded(), torch.Generator()
chance.seed()  # another order in each job
sampler = RandomSampler(files, generator=chance)
train(DataLoader(files, BATCH, sampler=sampler, num_workers=WORKERS))
