# does: a Dataset from a CSV file, saved as binary, train, save, load
# needs: lightgbm numpy
import lightgbm as lgb
import numpy as np
from case import run


def make(directory):
    np.savetxt(directory / "a.csv", np.random.default_rng(0).normal(size=(500, 5)), delimiter=",")


def use(directory):
    quiet = {"verbose": -1, "num_threads": 1}
    lgb.Dataset(str(directory / "a.csv"), params=quiet).save_binary(directory / "out" / "a.bin")
    data = lgb.Dataset(str(directory / "out" / "a.bin"), params=quiet)
    lgb.train(quiet, data, 3).save_model(directory / "out" / "m.txt")
    print(lgb.Booster(model_file=directory / "out" / "m.txt").predict(np.ones((1, 4))).round(3))


run(make, use)
