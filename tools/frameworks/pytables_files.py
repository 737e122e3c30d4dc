# does: PyTables: query a table, write an array that grows, open it again to append
# needs: tables numpy
import numpy as np
import tables
from case import run


def make(directory):
    with tables.open_file(directory / "a.h5", "w") as file:
        file.create_table("/", "t", np.array([(n, n * 0.5) for n in range(1000)], "i4,f8"))


def use(directory):
    with tables.open_file(directory / "a.h5") as file:
        print(len(file.root.t.read_where("f0 > 500")))
    for mode in "wa":
        with tables.open_file(directory / "out" / "b.h5", mode) as file:
            rows = file.root.x if mode == "a" else file.create_earray("/", "x", obj=np.arange(10))
            rows.append(np.arange(10))
            print(len(rows))


run(make, use)
