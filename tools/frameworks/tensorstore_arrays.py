# does: zarr3 and OCDBT over the file driver (C++): read, write, a transaction
# needs: tensorstore numpy
import numpy as np
import tensorstore as ts
from case import run


def store(directory, kvstore, create=False):
    where = f"file://{directory}/"
    spec = {"driver": "zarr3", "kvstore": where if kvstore == "file" else f"{where}|ocdbt:"}
    more = {"create": True, "dtype": ts.float64, "shape": [1000]} if create else {}
    return ts.open(spec, **more).result()


def make(directory):
    for kvstore in ("file", "ocdbt"):
        store(directory / kvstore, kvstore, create=True)[:] = np.arange(1000.0)


def use(directory):
    for kvstore in ("file", "ocdbt"):
        x = store(directory / kvstore, kvstore)[:].read().result()
        print(kvstore, x.sum())
        new = store(directory / "out" / kvstore, kvstore, create=True)
        new[:] = x
        with ts.Transaction() as turn:
            new.with_transaction(turn)[:10] = 0
        print(store(directory / "out" / kvstore, kvstore)[:].read().result().sum())


run(make, use)
