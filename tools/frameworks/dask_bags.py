# does: bag over text files with processes, arrays stored as npy stacks
# needs: dask numpy
import dask.array as da
import dask.bag as db
from case import run


def make(directory):
    for n in range(5):
        (directory / f"{n}.txt").write_text("word other\n" * 100)


def use(directory):
    words = db.read_text(str(directory / "*.txt")).str.split().flatten()
    print(sorted(words.frequencies().compute(scheduler="processes", num_workers=2)))
    words.repartition(2).to_textfiles(str(directory / "out" / "w-*.txt"))
    da.to_npy_stack(str(directory / "out" / "stack"), da.arange(100, chunks=25))
    print(int(da.from_npy_stack(str(directory / "out" / "stack")).sum().compute()))


if __name__ == "__main__":
    run(make, use)
