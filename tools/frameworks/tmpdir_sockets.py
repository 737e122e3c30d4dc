# does: TMPDIR in the mount: a multiprocessing Manager, whose socket is there
# needs:
import multiprocessing
import os
import tempfile

from case import run


def make(directory):
    (directory / "a.txt").write_text("word\n")


def use(directory):
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory / "out")
    os.chdir(directory / "out")
    with multiprocessing.Manager() as manager:
        shared = manager.list([(directory / "a.txt").read_text()])
        print(len(shared))


if __name__ == "__main__":
    run(make, use)
