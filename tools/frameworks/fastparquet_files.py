# does: read a partitioned set, write one, append row groups
# needs: fastparquet pandas
import fastparquet
import pandas as pd
from case import run


def write(directory, append=False):
    rows = pd.DataFrame({"x": range(100), "k": [n % 4 for n in range(100)]})
    fastparquet.write(str(directory), rows, file_scheme="hive", partition_on="k", append=append)


def make(directory):
    write(directory / "a")


def use(directory):
    print(int(fastparquet.ParquetFile(str(directory / "a")).to_pandas().x.sum()))
    write(directory / "out" / "b")
    write(directory / "out" / "b", append=True)
    print(len(fastparquet.ParquetFile(str(directory / "out" / "b")).to_pandas()))


run(make, use)
