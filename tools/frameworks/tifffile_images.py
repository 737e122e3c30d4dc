# does: imread, a file read as zarr, memmap (an input, and a new one written), append
# needs: tifffile numpy
import numpy as np
import tifffile
from case import run


def make(directory):
    tifffile.imwrite(directory / "a.tif", np.arange(3 * 64 * 64, dtype="u2").reshape(3, 64, 64))


def use(directory):
    print(tifffile.imread(directory / "a.tif")[1].sum())
    print(tifffile.memmap(directory / "a.tif", mode="r")[2, :5].sum())
    new = tifffile.memmap(directory / "out" / "b.tif", shape=(64, 64), dtype="f4")
    new[:] = 2
    new.flush()
    del new
    tifffile.imwrite(directory / "out" / "b.tif", np.ones((64, 64), "f4"), append=True)
    with tifffile.TiffFile(directory / "out" / "b.tif") as file:
        print([page.asarray().sum() for page in file.pages])


run(make, use)
