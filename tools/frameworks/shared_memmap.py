# does: two processes fill the halves of one memmap
# needs: numpy
import multiprocessing

import numpy as np
from case import run


def make(directory):
    np.save(directory / "a.npy", np.arange(1000))


def fill(directory, half):
    new = np.load(directory / "out" / "b.npy", mmap_mode="r+")
    where = slice(500 * half, 500 * half + 500)
    new[where] = np.load(directory / "a.npy", mmap_mode="r")[where]
    new.flush()


def use(directory):
    new = np.lib.format.open_memmap(directory / "out" / "b.npy", "w+", dtype="i8", shape=(1000,))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(fill, [(directory, 0), (directory, 1)])
    print(int(new.sum()))


if __name__ == "__main__":
    run(make, use)
