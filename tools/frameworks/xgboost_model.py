# does: train from a svm file, external memory with a cache in the mount, save, load
# needs: xgboost scikit-learn numpy
import numpy as np
import xgboost as xgb
from case import run


class Parts(xgb.DataIter):
    def __init__(self, directory):
        self.paths, self.at = sorted(directory.glob("*.npy")), 0
        super().__init__(cache_prefix=str(directory / "out" / "cache"))

    def next(self, take):
        if self.at == len(self.paths):
            return False
        part = np.load(self.paths[self.at])
        self.at += 1
        take(data=part[:, 1:], label=part[:, 0])
        return True

    def reset(self):
        self.at = 0


def make(directory):
    for n in range(3):
        np.save(directory / f"{n}.npy", np.random.default_rng(n).normal(size=(100, 5)))


def use(directory):
    data = xgb.ExtMemQuantileDMatrix(Parts(directory))
    model = xgb.train({"max_depth": 2, "nthread": 1}, data, 3)
    model.save_model(directory / "out" / "m.ubj")
    again = xgb.Booster(model_file=directory / "out" / "m.ubj")
    print(again.num_boosted_rounds(), again.predict(data).round(3)[:3])


run(make, use)
