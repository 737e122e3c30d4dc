"""A job with loaders of torch, which prints what must not depend on who looks: losses bit for bit,
the states of all random generators, descriptors, threads. Called with a directory and the names of
what is to be done; WORKERS and CONTEXT say with which workers."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch.utils import data

WORKERS = int(os.environ.get("WORKERS", "0"))
CONTEXT = os.environ.get("CONTEXT") or None
EPOCHS = 2


def audit(event, arguments):
    """Ends the process if an event comes that the job alone would not cause. FanStore compiles its
    code once."""
    ours = re.search(r"jobs/\w+/in_job/", str(arguments))
    if event != "compile" and (ours or event.startswith(("socket.", "fcntl.", "gc."))):
        os._exit(9)


class Folder(data.Dataset):
    """Like torchvision's ImageFolder: a sorted list of (path, label)."""

    def __init__(self, root):
        self.root = root
        found = sorted(os.path.join(d, f) for d, _, files in os.walk(root) for f in files)
        self.samples = [(path, len(path)) for path in found]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        with open(self.samples[index][0], "rb") as stream:
            return torch.tensor(list(stream.read(16)), dtype=torch.float32)


class Pairs(Folder):
    """Two files a sample, named below a root."""

    def __init__(self, root):
        super().__init__(root)
        names = [os.path.relpath(path, root) for path, _ in self.samples]
        half = len(names) // 2
        self.images, self.masks = names[:half], names[half : 2 * half]
        del self.samples

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        both = [os.path.join(self.root, each[index]) for each in (self.images, self.masks)]
        return torch.tensor([sum(open(path, "rb").read()) for path in both], dtype=torch.float32)


class Named(data.Dataset):
    """Makes the names of two files out of an index, and has no list of them; some samples are kept
    in memory, and some differ from epoch to epoch."""

    def __init__(self, root, kept=0):
        self.root, self.kept, self.memory = root, kept, {}
        self.count = len(Folder(root)) // 2

    def __len__(self):
        return self.count

    def read(self, number):
        number %= 2 * self.count
        with open(os.path.join(self.root, f"c{number % 7}", f"{number:03}"), "rb") as stream:
            return torch.tensor(list(stream.read(16)), dtype=torch.float32)

    def __getitem__(self, index):
        if index not in self.memory:
            found = self.read(index) + self.read(index + self.count)
            if index >= self.kept:
                return found
            self.memory[index] = found
        return self.memory[index]


class Threaded(Named):
    """Reads the two files of a sample in threads of its own."""

    readers = None

    def __getitem__(self, index):
        if self.readers is None:
            self.readers = ThreadPoolExecutor(2)
        return sum(self.readers.map(self.read, (index, index + self.count)))


def loader(dataset, **options):
    options.setdefault("batch_size", 8)
    context = CONTEXT if WORKERS else None
    return data.DataLoader(dataset, num_workers=WORKERS, multiprocessing_context=context, **options)


class NamedBatches(Named):
    """Reads a whole batch at a time, as datasets.Dataset does."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Trainer:
    """A model that learns from what is read, and so depends on the order bit for bit."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.rand(16, dtype=torch.float64))
        self.losses = []

    def step(self, batch):
        batch = batch.double() / 255
        loss = ((batch @ self.weight[: batch.shape[1]]) - 1).square().mean()
        loss.backward()
        with torch.no_grad():
            self.weight -= 0.01 * self.weight.grad
        self.weight.grad = None
        self.losses.append(loss.item().hex())

    def epochs(self, over, count=EPOCHS, steps=None):
        for _ in range(count):
            for number, batch in enumerate(over):
                if number == steps:
                    break
                self.step(batch)


def shuffled(root, trainer):
    trainer.epochs(loader(Folder(root), shuffle=True))


def own_generator(root, trainer):
    generator = torch.Generator().manual_seed(5)
    trainer.epochs(loader(Folder(root), shuffle=True, generator=generator))
    sampler = data.RandomSampler(Folder(root), generator=torch.Generator().manual_seed(6))
    trainer.epochs(loader(Folder(root), sampler=sampler))


def persistent(root, trainer):
    trainer.epochs(loader(Folder(root), shuffle=True, persistent_workers=WORKERS > 0))


def replacement(root, trainer):
    dataset = Folder(root)
    sampler = data.RandomSampler(dataset, replacement=True, num_samples=70)
    trainer.epochs(loader(dataset, sampler=sampler, drop_last=True))


def sequential(root, trainer):
    trainer.epochs(loader(Folder(root), batch_size=7))


def distributed(root, trainer):
    dataset = Folder(root)
    for set_epoch in (False, True):
        sampler = data.DistributedSampler(dataset, num_replicas=3, rank=1, seed=4)
        over = loader(dataset, sampler=sampler)
        for epoch in range(EPOCHS):
            if set_epoch:
                sampler.set_epoch(epoch)
            trainer.epochs(over, 1)


def subsets(root, trainer):
    dataset = Folder(root)
    first, second = data.random_split(dataset, [60, len(dataset) - 60])
    trainer.epochs(loader(first, shuffle=True))
    trainer.epochs(loader(data.ConcatDataset([second, first]), shuffle=True))
    trainer.epochs(loader(dataset, sampler=data.SubsetRandomSampler(range(3, 90, 2))))


def weighted(root, trainer):
    dataset = Folder(root)
    weights = [1 + index % 5 for index in range(len(dataset))]
    sampler = data.WeightedRandomSampler(weights, 100)
    trainer.epochs(loader(dataset, sampler=sampler))


def validation(root, trainer):
    dataset = Folder(root)
    training, held = data.random_split(dataset, [80, len(dataset) - 80])
    over, check = loader(training, shuffle=True), loader(held)
    for _ in range(EPOCHS):
        trainer.epochs(over, 1)
        trainer.epochs(check, 1)


def together(root, trainer):
    one, two = data.random_split(Folder(root), [50, len(Folder(root)) - 50])
    for _ in range(EPOCHS):
        for pair in zip(loader(one, shuffle=True), loader(two, shuffle=True), strict=False):
            for batch in pair:
                trainer.step(batch)


def pairs(root, trainer):
    trainer.epochs(loader(Pairs(root), shuffle=True))


def named(root, trainer):
    over = loader(Named(root), shuffle=True)
    trainer.epochs(over, 3)


def named_persistent(root, trainer):
    trainer.epochs(loader(Named(root), shuffle=True, persistent_workers=WORKERS > 0), 3)


def named_subset(root, trainer):
    part, _ = data.random_split(Named(root), [30, len(Named(root)) - 30])
    trainer.epochs(loader(part, shuffle=True), 3)


def named_batches(root, trainer):
    trainer.epochs(loader(NamedBatches(root), shuffle=True), 3)


def named_in_memory(root, trainer):
    trainer.epochs(loader(Named(root, kept=20), shuffle=True), 3)


def named_in_threads(root, trainer):
    dataset, tasks = Threaded(root), len(os.listdir("/proc/self/task"))
    trainer.epochs(loader(dataset, shuffle=True, persistent_workers=WORKERS > 0), 3)
    if dataset.readers is not None:
        dataset.readers.shutdown()
        for _ in range(500):  # a thread is seen for a moment after it was joined
            time.sleep(0.01 * (len(os.listdir("/proc/self/task")) > tasks))


def named_alone(root, trainer):
    trainer.epochs(loader(Named(root), batch_size=None, collate_fn=lambda x: x[None]), 3)


def single_samples(root, trainer):
    trainer.epochs(
        loader(Folder(root), batch_size=None, shuffle=True, collate_fn=lambda x: x[None])
    )


def augmented(root, trainer):
    """Draws random numbers between the batches, in the process of the loader."""
    over = loader(Folder(root), shuffle=True)
    for _ in range(EPOCHS):
        for batch in over:
            trainer.step(batch + torch.rand(()) * np.random.rand() * random.random())


class Lengthless(data.Dataset):
    """Its length is nobody's business."""

    def __getitem__(self, index):
        return torch.ones(16)


def odd_datasets(root, trainer):
    """What is no file of anybody's, and then a loader of files."""
    trainer.epochs(loader([torch.ones(16)] * 5, shuffle=True))
    trainer.epochs(loader([torch.ones(16)] * 5, batch_sampler=[[1, 2], [3]], batch_size=1))
    trainer.epochs(loader(Lengthless(), sampler=[4, 5, 6]))
    trainer.epochs(loader(Lengthless(), sampler=data.SubsetRandomSampler([4, 5, 6])))
    shuffled(root, trainer)


def broken_off(root, trainer):
    trainer.epochs(loader(Folder(root), shuffle=True), steps=4)


class Odd(data.RandomSampler):
    """A sampler that only its own code knows."""

    def __iter__(self):
        return iter(list(super().__iter__())[::-1])


class Yielding(Odd):
    """One that draws when it is asked."""

    def __iter__(self):
        for index in super().__iter__():
            yield (index * 3 + 1) % len(self)


class Batches(Odd):
    """A batch sampler of one's own, with batches of many sizes."""

    def __iter__(self):
        order = list(super().__iter__())
        while order:
            size = 1 + order[0] % 9
            yield order[:size]
            order = order[size:]

    def __len__(self):
        return 100


class Parts:
    """A rank's part of each larger batch, as Megatron's samplers draw it."""

    def __init__(self, count, rank):
        self.count, self.rank = count, rank

    def __iter__(self):
        larger = []
        for index in range(self.count):
            larger.append(index)
            if len(larger) == 9:
                yield larger[3 * self.rank : 3 * self.rank + 3]
                larger = []


def parts_of_batches(root, trainer):
    dataset = Folder(root)
    for rank in range(3):
        trainer.epochs(loader(dataset, batch_size=1, batch_sampler=Parts(len(dataset), rank)))


def unknown_samplers(root, trainer):
    trainer.epochs(loader(Folder(root), sampler=Odd(Folder(root)), drop_last=True))
    trainer.epochs(loader(Folder(root), sampler=list(range(90, 10, -2))))


def yielding(root, trainer):
    trainer.epochs(loader(Folder(root), sampler=Yielding(Folder(root))))


def own_batches(root, trainer):
    trainer.epochs(loader(Folder(root), batch_size=1, batch_sampler=Batches(Folder(root))))


def unknown_persistent(root, trainer):
    sampler = Odd(Folder(root))
    trainer.epochs(loader(Folder(root), sampler=sampler, persistent_workers=WORKERS > 0))


class Streamed(data.IterableDataset):
    """Goes through the numbers of samples."""

    def __init__(self, root):
        self.inner = Folder(root)

    def __iter__(self):
        worker = data.get_worker_info()
        begin, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return (self.inner[index] for index in range(begin, len(self.inner), step))


def iterable(root, trainer):
    trainer.epochs(loader(Streamed(root)))


class NamedStream(data.IterableDataset):
    """Makes names from numbers; its list has other numbers."""

    def __init__(self, root):
        self.named, self.listed = Named(root), Folder(root)

    def __iter__(self):
        return (self.named.read(index) for index in range(2 * self.named.count))


def named_stream(root, trainer):
    trainer.epochs(loader(NamedStream(root)), 1)


class Listed(data.IterableDataset):
    """Goes through a shuffled list of its files, which workers share."""

    def __init__(self, root):
        self.samples = Folder(root).samples

    def __iter__(self):
        worker = data.get_worker_info()
        begin, step = (worker.id, worker.num_workers) if worker else (0, 1)
        order = list(self.samples)
        random.Random(3).shuffle(order)
        for path, _ in order[begin::step]:
            with open(path, "rb") as stream:
                yield torch.tensor(list(stream.read(16)), dtype=torch.float32)


class ByFolder(data.IterableDataset):
    """Goes through one folder after the other."""

    def __init__(self, root):
        self.folders = [os.path.join(root, each) for each in sorted(os.listdir(root))]

    def __iter__(self):
        worker = data.get_worker_info()
        for folder in self.folders[worker.id :: worker.num_workers] if worker else self.folders:
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), "rb") as stream:
                    yield torch.tensor(list(stream.read(16)), dtype=torch.float32)


def listed_streams(root, trainer):
    trainer.epochs(loader(Listed(root), persistent_workers=WORKERS > 0))
    trainer.epochs(loader(Listed(root), batch_size=None, collate_fn=lambda x: x[None]))


def streams_of_folders(root, trainer):
    trainer.epochs(loader(ByFolder(root)))


def patched(root, trainer):
    """The job has its own ideas of a loader."""
    data.DataLoader._get_iterator = lambda self: iter([torch.ones(2, 16)])
    trainer.epochs(loader(Folder(root)))


def states():
    kinds = (torch.get_rng_state().tolist(), np.random.get_state(), random.getstate())
    return [hashlib.sha256(pickle.dumps(each)).hexdigest() for each in kinds]


def main():
    root, names = sys.argv[1], sys.argv[2:]
    if "AUDIT" in os.environ:
        sys.addaudithook(audit)
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    trainer = Trainer()
    for name in names:
        globals()[name](root, trainer)
    said = {
        "losses": trainer.losses,
        "states": states(),
        "finders": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path],
        "modules": [name for name in sys.modules if "fanstore" in name],
    }
    if not WORKERS:  # torch's own threads end when they like
        said["descriptors"] = len(os.listdir("/proc/self/fd"))
        said["threads"] = [threading.active_count(), len(os.listdir("/proc/self/task"))]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
