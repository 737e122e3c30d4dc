# does: one process reads a log while another goes on writing it
# needs:
import subprocess
import sys

from case import run


def make(directory):
    (directory / "a.txt").write_text("word\n")


def use(directory):
    read = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text(), end='')"
    with (directory / "out" / "log").open("w") as log:
        for _ in range(3):
            log.write((directory / "a.txt").read_text())
            log.flush()
            subprocess.run([sys.executable, "-c", read, directory / "out" / "log"], check=True)


run(make, use)
