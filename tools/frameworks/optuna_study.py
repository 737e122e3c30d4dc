# does: studies in SQLite and in a journal, each written by 2 processes
# needs: optuna
import multiprocessing

import optuna
from case import run
from optuna.storages.journal import JournalFileBackend

optuna.logging.set_verbosity(optuna.logging.ERROR)


def storages(directory):
    yield "sqlite", f"sqlite:///{directory}/out/study.db"
    yield "journal", optuna.storages.JournalStorage(JournalFileBackend(f"{directory}/out/journal"))


def make(directory):
    (directory / "a.txt").write_text("3")


def search(directory):
    aim = float((directory / "a.txt").read_text())
    for name, storage in storages(directory):
        study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 9) - aim) ** 2, n_trials=5)


def use(directory):
    for name, storage in storages(directory):
        optuna.create_study(storage=storage, study_name=name)
    jobs = [multiprocessing.Process(target=search, args=(directory,)) for _ in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    for name, storage in storages(directory):
        print(name, len(optuna.load_study(storage=storage, study_name=name).trials))


if __name__ == "__main__":
    run(make, use)
