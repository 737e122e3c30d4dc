# does: open a database read-only with its lock, read keys; write another
# needs: lmdb
import lmdb
from case import run


def write(path):
    with lmdb.open(str(path), map_size=1 << 20) as base, base.begin(write=True) as turn:
        for n in range(1000):
            turn.put(b"%04d" % n, b"x" * n)


def make(directory):
    write(directory / "a")


def use(directory):
    for lock in (False, True):
        base = lmdb.open(str(directory / "a"), readonly=True, lock=lock)
        with base, base.begin() as turn:
            print(lock, sum(len(value) for _, value in turn.cursor()))
    write(directory / "out" / "b")
    with lmdb.open(str(directory / "out" / "b"), readonly=True) as base:
        print(base.stat()["entries"])


run(make, use)
