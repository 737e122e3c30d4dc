# does: load_from_disk, load_dataset of parquet with its cache in the mount, map, save_to_disk
# needs: datasets>=5.2
import datasets
from case import run

datasets.disable_progress_bars()


def make(directory):
    rows = datasets.Dataset.from_dict({"x": list(range(1000)), "t": ["word"] * 1000})
    rows.save_to_disk(directory / "rows")
    rows.to_parquet(directory / "rows.parquet")


def use(directory):
    rows = datasets.load_from_disk(directory / "rows")
    print(sum(rows["x"]), rows[5])
    loaded = datasets.load_dataset(
        "parquet",
        data_files=str(directory / "rows.parquet"),
        split="train",
        cache_dir=str(directory / "out" / "cache"),
    )
    doubled = loaded.map(lambda row: {"y": 2 * row["x"]})
    doubled.save_to_disk(directory / "out" / "doubled")
    print(sum(datasets.load_from_disk(directory / "out" / "doubled")["y"]))


run(make, use)
