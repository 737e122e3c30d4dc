# does: save and load a .keras file and weights (HDF5)
# needs: keras tensorflow-cpu
import keras
import numpy as np
from case import run


def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, kernel_initializer="ones")])


def make(directory):
    model().save(directory / "m.keras")


def use(directory):
    loaded = keras.models.load_model(directory / "m.keras")
    loaded.save(directory / "out" / "m.keras")
    loaded.save_weights(directory / "out" / "m.weights.h5")
    again = keras.models.load_model(directory / "out" / "m.keras")
    print(float(np.sum(again(np.ones((2, 4))))))


run(make, use)
