# does: Pool workers that read and write, shutil, zipfile, tempfile, logging among the outputs
# needs:
import logging
import multiprocessing
import shutil
import tempfile
import zipfile

from case import run


def make(directory):
    (directory / "data").mkdir()
    for n in range(20):
        (directory / "data" / f"{n:02}.txt").write_text(f"{n}\n" * 10)
    shutil.make_archive(str(directory / "data"), "zip", directory / "data")


def convert(path):
    target = path.parent.parent / "out" / f"{path.stem}.upper"
    target.write_text(path.read_text() * 2)
    return len(path.read_text())


def use(directory):
    paths = sorted((directory / "data").glob("*.txt"))
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(2) as pool:
            print(way, sum(pool.map(convert, paths)))
    with zipfile.ZipFile(directory / "data.zip") as archive:
        archive.extractall(directory / "out" / "unpacked")
    shutil.copytree(directory / "data", directory / "out" / "copy")
    shutil.rmtree(directory / "out" / "copy")
    shutil.move(directory / "out" / "unpacked", directory / "out" / "moved")
    with tempfile.TemporaryDirectory(dir=directory / "out") as scratch:
        shutil.copy(paths[0], scratch)
    logging.basicConfig(filename=directory / "out" / "log", level=logging.INFO)
    logging.info("done")
    print(len(list((directory / "out").rglob("*"))))


if __name__ == "__main__":
    run(make, use)
