# does: IterableDataset that goes through the shuffled numbers of the samples of another dataset
import random

from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self) -> None:
        self.files, self.epoch = Files(), 0

    def __iter__(self):
        worker = get_worker_info()
        numbers = list(range(len(self.files)))
        random.Random(self.epoch).shuffle(numbers)
        for number in numbers[worker.id :: worker.num_workers]:
            yield self.files[number]


stream = Stream()
loader = DataLoader(stream, BATCH, num_workers=WORKERS)
train(loader, begin=lambda epoch: setattr(stream, "epoch", epoch))
