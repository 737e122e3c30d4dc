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
    together = multiprocessing.Barrier(4, timeout=20)  # all have the log open at one time
    jobs = [multiprocessing.Process(target=work, args=(together, directory, n)) for n in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    print([job.exitcode for job in jobs], len((directory / "out" / "log").read_text().split("\n")))


if __name__ == "__main__":
    run(make, use)
