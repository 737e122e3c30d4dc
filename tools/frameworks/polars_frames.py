# does: scan_parquet, scan_csv, write_parquet, sink_parquet (Rust)
# needs: polars
import polars as pl
from case import run


def make(directory):
    frame = pl.DataFrame({"a": range(10_000), "b": [n % 7 for n in range(10_000)]})
    frame.write_parquet(directory / "a.parquet")
    frame.write_csv(directory / "a.csv")


def use(directory):
    lazy = pl.scan_parquet(directory / "*.parquet").group_by("b").agg(pl.col("a").sum()).sort("b")
    print(lazy.collect()["a"].to_list())
    print(pl.scan_csv(directory / "a.csv").select(pl.col("a").sum()).collect().item())
    lazy.collect().write_parquet(directory / "out" / "b.parquet")
    lazy.sink_parquet(directory / "out" / "c.parquet")
    print(pl.read_parquet(directory / "out" / "*.parquet").height)


run(make, use)
