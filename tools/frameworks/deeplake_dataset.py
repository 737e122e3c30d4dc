# does: open a dataset, read rows, create another, append, commit, remove it (C++)
# needs: deeplake numpy
import shutil

import deeplake
from case import run


def write(directory):
    rows = deeplake.create(str(directory))
    rows.add_column("x", deeplake.types.Int64())
    rows.append({"x": list(range(100))})
    rows.commit()


def total(directory):
    rows = deeplake.open_read_only(str(directory))
    return sum(int(x) for x in rows["x"][:])


def make(directory):
    write(directory / "a")


def use(directory):
    print(total(directory / "a"))
    write(directory / "out" / "b")
    print(total(directory / "out" / "b"))
    shutil.rmtree(directory / "out" / "b")  # removed because its files have random names


run(make, use)
