# does: tasks that read inputs, an actor that writes outputs
# needs: ray
import os
import tempfile

from case import run

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def make(directory):
    for n in range(4):
        (directory / f"{n}.txt").write_text(f"{n}\n" * 100)


def size(path):
    return len(path.read_text())


class Log:
    def __init__(self, path):
        self.file = path.open("w")

    def add(self, number):
        print(number, file=self.file, flush=True)


def use(directory):
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-") as scratch:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
            object_store_memory=100 << 20,
            _temp_dir=scratch,
        )
        paths = sorted(directory.glob("*.txt"))
        sizes = ray.get([ray.remote(size).remote(path) for path in paths])
        log = ray.remote(Log).remote(directory / "out" / "log")
        ray.get([log.add.remote(number) for number in sizes])
        ray.shutdown()
    print(sizes)


if __name__ == "__main__":
    run(make, use)
