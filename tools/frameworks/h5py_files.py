# does: read chunks of a compressed set, write, append to what was written
# needs: h5py numpy
import h5py
import numpy as np
from case import run


def make(directory):
    with h5py.File(directory / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100_000.0), chunks=(1000,), compression="gzip")


def use(directory):
    with h5py.File(directory / "a.h5") as file:
        print(file["x"][5000:5010].sum(), file["x"][:].sum())
    for turn, mode in enumerate("wa"):
        with h5py.File(directory / "out" / "b.h5", mode) as file:
            file[f"y{turn}"] = np.arange(100)
    with h5py.File(directory / "out" / "b.h5") as file:
        print(sorted(file), file["y1"][:].sum())


run(make, use)
