# does: DataLoader with 2 workers over an ArrayRecord file, which is written anew, too
# needs: grain array-record absl-py
import sys

import grain
from absl import flags
from array_record.python.array_record_module import ArrayRecordWriter
from case import run

flags.FLAGS(sys.argv[:1])


class Number(grain.transforms.Map):
    def map(self, record):
        return int(record)


def write(path):
    sink = ArrayRecordWriter(str(path), "group_size:1")
    for n in range(100):
        sink.write(b"%d" % n)
    sink.close()


def total(path):
    source = grain.sources.ArrayRecordDataSource(str(path))
    order = grain.samplers.IndexSampler(len(source), num_epochs=1, shuffle=True, seed=1)
    loader = grain.DataLoader(
        data_source=source, sampler=order, operations=[Number()], worker_count=2
    )
    return sum(loader)


def make(directory):
    write(directory / "a.array_record")


def use(directory):
    print(total(directory / "a.array_record"))
    write(directory / "out" / "b.array_record")
    print(total(directory / "out" / "b.array_record"))


if __name__ == "__main__":
    run(make, use)
