"""A job with loaders of torch whose classes count how often their methods are called. Prints that,
the batches and the exceptions, which must not depend on who looks. Called with a directory and the
number of workers."""

from __future__ import annotations

import collections
import copy
import inspect
import os
import pickle
import sys
import traceback

import torch
from torch.utils import data

ROOT, WORKERS = sys.argv[1], int(sys.argv[2])
PATHS = sorted(os.path.join(d, f) for d, _, files in os.walk(ROOT) for f in files)
calls: collections.Counter[str] = collections.Counter()


class Counting:
    """Counts calls of special methods that subclasses define as `length`, `item` and so on."""

    def __len__(self):
        calls[type(self).__name__ + ".len"] += 1
        return self.length()

    def __getitem__(self, index):
        calls[type(self).__name__ + ".item"] += 1
        return self.item(index)

    def __index__(self):
        calls[type(self).__name__ + ".index"] += 1
        return self.number

    def __getattr__(self, name):
        calls[f"{type(self).__name__}.{name}"] += 1
        raise AttributeError(name)

    def __repr__(self):
        calls[type(self).__name__ + ".repr"] += 1
        return "counting"

    def __bool__(self):
        calls[type(self).__name__ + ".bool"] += 1
        return True


class Index(Counting):
    def __init__(self, number):
        self.number = number

    def __int__(self):
        return self.number


class Indices(Counting):
    """A sequence of the indices of half of the files."""

    def length(self):
        return len(PATHS) // 2

    def item(self, index):
        if isinstance(index, list):
            return [2 * each for each in index]
        return 2 * index


class Files(Counting, data.Dataset):
    def __init__(self, listed):
        self.paths = PATHS if listed else dict(enumerate(PATHS))
        self.odd = Index(5)

    def length(self):
        return len(self.paths)

    def item(self, index):
        with open(self.paths[int(index)], "rb") as stream:
            return sum(stream.read())


class Mine(data.Sampler):
    """A sampler of one's own, which may fail."""

    def __init__(self, error=None):
        self.error = error

    def __iter__(self):
        for index in range(40):
            if index == 30 and self.error is not None:
                raise self.error
            yield index


class Half(data.RandomSampler):
    @property
    def num_samples(self):
        calls["Half.num_samples"] += 1
        return 50


class Generators(data.Sampler):
    """A batch sampler whose batches give their indices only once."""

    def __iter__(self):
        for begin in range(0, 40, 8):
            yield (index for index in range(begin, begin + 8))


class Failing(data.Dataset):
    """Its length is asked for `times` times, and then it fails."""

    def __init__(self, error, times):
        self.error, self.times = error, times

    def __len__(self):
        self.times -= 1
        if self.times < 0:
            raise self.error
        return 20

    def __getitem__(self, index):
        return index


def loaders():
    for listed in (True, False):
        yield Files(listed), {"shuffle": True}
        yield Files(listed), {}
        yield Files(listed), {"sampler": Mine()}
    yield Files(True), {"sampler": Half(Files(True))}
    yield Files(True), {"sampler": data.SubsetRandomSampler(Indices())}
    yield Files(True), {"sampler": data.DistributedSampler(Files(True), 3, 1)}
    yield Files(False), {"sampler": [Index(number) for number in range(30)]}
    yield data.Subset(Files(True), Indices()), {"shuffle": True}
    yield data.random_split(Files(True), [41, len(PATHS) - 41])[0], {"shuffle": True}
    yield data.ConcatDataset([Files(True), Files(False)]), {"shuffle": True}
    if not WORKERS:  # a generator cannot be sent
        yield Files(True), {"batch_sampler": Generators(), "batch_size": 1}


def failing():
    for error in (LookupError("no"), KeyboardInterrupt(), AttributeError("no"), StopIteration()):
        yield Files(True), {"sampler": Mine(error)}
        for times in (4, 5):
            yield Failing(error, times), {"shuffle": True}
        yield Failing(error, 1), {}


def run(loader):
    """Returns the batches of two epochs, and how they ended."""
    batches = []
    try:
        for _ in range(2):
            batches += [batch.tolist() for batch in loader]
    except BaseException:
        return batches, traceback.format_exc()
    return batches, ""


def main():
    torch.manual_seed(1)
    for dataset, options in [*loaders(), *failing()]:
        options.setdefault("batch_size", 8)
        calls.clear()
        try:
            loader = data.DataLoader(dataset, num_workers=WORKERS, **options)
        except BaseException:
            print(traceback.format_exc())
            continue
        print(type(dataset).__name__, options.keys(), *run(loader), sorted(calls.items()))
    chance = torch.Generator().manual_seed(3)
    sampler = data.RandomSampler(Files(True), generator=chance)
    loader = data.DataLoader(Files(True), 8, sampler=sampler)
    run(loader)
    for again in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        print(run(again))
    print([len(pickle.dumps(each)) for each in (loader, sampler, loader.dataset)])
    inspect.signature(type(iter(loader))._next_index)
    print(torch.get_rng_state().sum().item())


main()
