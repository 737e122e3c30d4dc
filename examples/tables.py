"""Tables in a packed dataset, read by pandas and dask through fsspec (docs/python.md).

    python examples/tables.py

makes four small tables, packs them, and reads them by URL. It needs
pip install 'fanstore-fs[fsspec]' pandas 'dask[dataframe]'.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def write_tables(folder: Path) -> None:
    """Writes the sales of four quarters, a CSV file each."""
    folder.mkdir()
    for quarter in range(1, 5):
        rows = [f"{day},{day * quarter}" for day in range(1, 91)]
        (folder / f"q{quarter}.csv").write_text("\n".join(["day,sold", *rows]) + "\n")


def main() -> None:
    try:
        import dask.dataframe
        import fsspec
        import pandas
    except ImportError as error:
        raise SystemExit(f"{error}; see the first lines of this file") from None
    with tempfile.TemporaryDirectory() as scratch:
        source, packed = Path(scratch, "sales"), Path(scratch, "sales.fan")
        write_tables(source)
        prepare = [sys.executable, "-m", "fanstore", "prepare", "--quiet", source, packed]
        subprocess.run(prepare, check=True)

        quarter = pandas.read_csv(f"fanstore://{packed}!/q1.csv")
        print("pandas: sold in the first quarter:", quarter["sold"].sum())
        year = dask.dataframe.read_csv(f"fanstore://{packed}!/*.csv")
        print("dask: sold in the year:", year["sold"].sum().compute())
        for path in fsspec.filesystem("fanstore", dataset=packed).ls("/", detail=False):
            print("fsspec:", path)


if __name__ == "__main__":
    main()
