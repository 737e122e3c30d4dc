# does: parquet, memory_map of an Arrow file, dataset over a directory, write_dataset
# needs: pyarrow
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from case import run


def make(directory):
    table = pa.table({"x": list(range(10_000)), "k": [n % 4 for n in range(10_000)]})
    pq.write_table(table, directory / "a.parquet")
    path = str(directory / "a.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def use(directory):
    print(pq.read_table(directory / "a.parquet").num_rows)
    with pa.memory_map(str(directory / "a.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    ds.write_dataset(table, directory / "out" / "set", format="parquet", partitioning=["k"])
    print(ds.dataset(directory / "out" / "set", partitioning=["k"]).to_table()["x"].to_pylist()[:3])


run(make, use)
