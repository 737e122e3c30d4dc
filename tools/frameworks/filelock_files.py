# does: FileLock in the mount, which 4 processes take in turn
# needs: filelock
from concurrent.futures import ProcessPoolExecutor

from case import run
from filelock import FileLock


def make(directory):
    (directory / "a.txt").write_text("a\n" * 100)


def count(directory):
    with FileLock(directory / "out" / "count.lock", timeout=60):
        path = directory / "out" / "count"
        seen = int(path.read_text()) if path.exists() else 0
        path.write_text(str(seen + len((directory / "a.txt").read_text())))


def use(directory):
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(count, [directory] * 400))
    print((directory / "out" / "count").read_text())


run(make, use)
