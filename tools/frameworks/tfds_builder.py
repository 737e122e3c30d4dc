# does: tensorflow_datasets: read a prepared set, prepare another in the mount
# needs: tensorflow-datasets tensorflow-cpu
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from case import run

tfds.disable_progress_bar()


def write(directory):
    rows = tf.data.Dataset.range(100).map(lambda n: {"x": tf.fill([4], n)})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="small",
        version="1.0.0",
        data_dir=str(directory),
        split_datasets={"train": rows},
        features=tfds.features.FeaturesDict(
            {"x": tfds.features.Tensor(shape=(4,), dtype=np.int64)}
        ),
        disable_shuffling=True,
    )


def total(directory):
    rows = tfds.builder_from_directory(directory / "small" / "1.0.0").as_dataset("train")
    return sum(int(row["x"][0]) for row in tfds.as_numpy(rows))


def make(directory):
    write(directory)


def use(directory):
    print(total(directory))
    write(directory / "out")
    print(total(directory / "out"))


run(make, use)
