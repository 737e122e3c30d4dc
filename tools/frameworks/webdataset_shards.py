# does: read tar shards, ShardWriter
# needs: webdataset
import webdataset as wds
from case import run


def make(directory):
    for shard in range(3):
        with wds.TarWriter(str(directory / f"s-{shard}.tar")) as sink:
            for n in range(10):
                sink.write({"__key__": f"{shard}{n}", "cls": n, "txt": "word"})


def use(directory):
    data = wds.WebDataset(str(directory / "s-{0..2}.tar"), shardshuffle=False).decode()
    print(sum(sample["cls"] for sample in data))
    with wds.ShardWriter(str(directory / "out" / "o-%d.tar"), maxcount=5, verbose=0) as sink:
        for n in range(12):
            sink.write({"__key__": str(n), "cls": n})
    print(len(list(wds.WebDataset(str(directory / "out" / "o-{0..2}.tar"), shardshuffle=False))))


run(make, use)
