# does: IterableDataset over a list of files, shuffled each epoch, which the workers share
import random

from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self) -> None:
        self.files, self.epoch = Files(), 0

    def __iter__(self):
        worker = get_worker_info()
        order = list(self.files.samples)
        random.Random(self.epoch).shuffle(order)
        for path, number in order[worker.id :: worker.num_workers]:
            with open(path, "rb") as file:
                yield self.files.decoded(file.read(8)), number


stream = Stream()
loader = DataLoader(stream, BATCH, num_workers=WORKERS)
train(loader, begin=lambda epoch: setattr(stream, "epoch", epoch))
