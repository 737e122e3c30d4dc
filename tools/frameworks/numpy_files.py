# does: load, memmap (read, and a new one written), savez, loadtxt
# needs: numpy
import numpy as np
from case import run


def make(directory):
    np.save(directory / "a.npy", np.arange(100_000.0).reshape(100, 1000))
    np.savetxt(directory / "t.txt", np.arange(12).reshape(3, 4))


def use(directory):
    a = np.load(directory / "a.npy")
    mapped = np.load(directory / "a.npy", mmap_mode="r")
    print(a.sum(), mapped[3, 7], np.loadtxt(directory / "t.txt").sum())
    np.savez(directory / "out" / "b.npz", a=a)
    written = np.memmap(directory / "out" / "m.bin", dtype="f8", mode="w+", shape=(1000,))
    written[:] = a[5]
    written.flush()
    del written
    print(np.load(directory / "out" / "b.npz")["a"].sum())
    print(np.fromfile(directory / "out" / "m.bin").sum())


run(make, use)
