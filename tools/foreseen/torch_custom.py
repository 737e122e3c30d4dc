# does: a sampler of one's own with a seed
import random

from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader, Sampler


class Shuffled(Sampler):
    def __init__(self, count: int) -> None:
        self.count, self.epoch = count, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        order = list(range(self.count))
        random.Random(17 + self.epoch).shuffle(order)
        self.epoch += 1
        return iter(order)


files = Files()
train(DataLoader(files, BATCH, sampler=Shuffled(len(files)), num_workers=WORKERS))
