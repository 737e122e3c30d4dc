# does: four processes append lines to one log (Python's logging)
# needs:
import logging
import multiprocessing

from case import run


def make(directory):
    (directory / "a.txt").write_text("word")


def work(together, directory, number):
    logging.basicConfig(filename=directory / "out" / "log", level=logging.INFO)
    for _ in range(10):
        logging.info("%s %d", (directory / "a.txt").read_text(), number)
    together.wait()


def use(directory):
    # All processes have the log open at the same time.
    together = multiprocessing.Barrier(4, timeout=20)
    jobs = [multiprocessing.Process(target=work, args=(together, directory, n)) for n in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    print([job.exitcode for job in jobs], len((directory / "out" / "log").read_text().split("\n")))


if __name__ == "__main__":
    run(make, use)
