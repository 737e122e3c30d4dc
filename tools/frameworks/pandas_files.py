# does: read_csv, to_csv, to_parquet, to_pickle
# needs: pandas pyarrow
import pandas as pd
from case import run


def make(directory):
    pd.DataFrame({"a": range(1000), "b": ["x"] * 1000}).to_csv(directory / "a.csv", index=False)


def use(directory):
    frame = pd.read_csv(directory / "a.csv")
    frame.to_csv(directory / "out" / "a.csv.gz", index=False)
    frame.to_parquet(directory / "out" / "a.parquet")
    frame.to_pickle(directory / "out" / "a.pkl")
    print(pd.read_csv(directory / "out" / "a.csv.gz")["a"].sum(), frame.shape)
    kept = pd.read_pickle(directory / "out" / "a.pkl")
    print(pd.read_parquet(directory / "out" / "a.parquet").equals(kept))


run(make, use)
