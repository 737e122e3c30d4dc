# does: compiled functions cached in the mount, found there by a second process
# needs: numba numpy
import multiprocessing
import os
import sys

from case import run

os.environ["NUMBA_CACHE_DIR"] = str(os.path.join(sys.argv[2], "out", "cache"))


def make(directory):
    (directory / "a.txt").write_text("1000")


def compiled(directory):
    import numba

    @numba.njit(cache=True)
    def total(n):
        s = 0
        for i in range(n):
            s += i
        return s

    print(total(int((directory / "a.txt").read_text())), sum(total.stats.cache_hits.values()))


def use(directory):
    for _ in range(2):
        process = multiprocessing.get_context("spawn").Process(target=compiled, args=(directory,))
        process.start()
        process.join()


if __name__ == "__main__":
    run(make, use)
