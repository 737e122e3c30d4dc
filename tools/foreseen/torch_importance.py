# does: a sampler that chooses each batch by the losses so far
import random

from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader, Sampler


class Importance(Sampler):
    def __init__(self, count: int) -> None:
        self.weights, self.random = [1.0] * count, random.Random(5)

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self):
        for _ in range(0, len(self), BATCH):
            for index in self.random.choices(range(len(self)), self.weights, k=BATCH):
                self.weights[index] *= 0.5
                yield index


files = Files()
train(DataLoader(files, BATCH, sampler=Importance(len(files)), num_workers=WORKERS))
