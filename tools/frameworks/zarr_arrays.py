# does: read a group, write one of many small chunks
# needs: zarr numpy
import numpy as np
import zarr
from case import run


def make(directory):
    group = zarr.open_group(str(directory / "a.zarr"), mode="w")
    array = group.create_array("x", shape=(1000,), chunks=(100,), dtype="f8")
    array[:] = np.arange(1000.0)


def use(directory):
    x = zarr.open_group(str(directory / "a.zarr"), mode="r")["x"]
    print(x[250:260].sum(), x[:].sum())
    out = zarr.open_group(str(directory / "out" / "b.zarr"), mode="w")
    out.create_array("y", shape=(1000,), chunks=(10,), dtype="f8")[:] = x[:]
    print(zarr.open_group(str(directory / "out" / "b.zarr"), mode="r")["y"][:].sum())


run(make, use)
