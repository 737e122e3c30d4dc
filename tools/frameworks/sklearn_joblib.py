# does: load_files, joblib.Memory and dump in the mount, read back with mmap by 2 processes
# needs: scikit-learn joblib numpy
import joblib
import numpy as np
from case import run
from sklearn.datasets import load_files, load_svmlight_file
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score


def make(directory):
    np.save(directory / "x.npy", np.random.default_rng(0).normal(size=(200, 10)))
    (directory / "a.svm").write_text("1 1:2 3:4\n-1 2:3\n" * 10)
    for kind in ("cat", "dog"):
        (directory / "texts" / kind).mkdir(parents=True)
        (directory / "texts" / kind / "a.txt").write_text(kind)


def use(directory):
    print(
        sorted(load_files(directory / "texts").data), load_svmlight_file(directory / "a.svm")[1][:2]
    )
    x = np.load(directory / "x.npy", mmap_mode="r")
    memory = joblib.Memory(directory / "out" / "cache", verbose=0)
    print([memory.cache(np.sum)(x).round(6) for _ in range(2)])
    joblib.dump(np.asarray(x), directory / "out" / "x.joblib")
    mapped = joblib.load(directory / "out" / "x.joblib", mmap_mode="r")
    print(cross_val_score(Ridge(), mapped, mapped[:, 0], cv=2, n_jobs=2).round(3))


run(make, use)
