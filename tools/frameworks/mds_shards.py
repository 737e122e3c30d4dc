# does: StreamingDataset over MDS shards of the mount, MDSWriter writes new ones there
# needs: brotli catalogue python-snappy torch torchvision transformers>=5.20 xxhash zstd
# alone: mosaicml-streaming
from case import run
from streaming import MDSWriter, StreamingDataset


def write(directory):
    with MDSWriter(out=str(directory), columns={"x": "int"}, size_limit=1000) as sink:
        for n in range(100):
            sink.write({"x": n})


def total(directory):
    return sum(row["x"] for row in StreamingDataset(local=str(directory), batch_size=1))


def make(directory):
    write(directory / "shards")


def use(directory):
    print(total(directory / "shards"))
    write(directory / "out" / "shards")
    print(total(directory / "out" / "shards"))


run(make, use)
