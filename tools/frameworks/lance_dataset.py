# does: read and scan a dataset, write one, append a version (Rust)
# needs: pylance pyarrow
import lance
import pyarrow as pa
from case import run


def write(directory, mode="create"):
    rows = pa.table({"x": list(range(1000)), "t": ["word"] * 1000})
    return lance.write_dataset(rows, str(directory), mode=mode)


def make(directory):
    write(directory / "a.lance")


def use(directory):
    rows = lance.dataset(str(directory / "a.lance"))
    print(rows.count_rows("x > 500"), rows.take([5, 7]).to_pylist())
    write(directory / "out" / "b.lance")
    print(write(directory / "out" / "b.lance", "append").count_rows())
    print(len(lance.dataset(str(directory / "out" / "b.lance")).versions()))


run(make, use)
