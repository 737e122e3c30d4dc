"""A job with pipelines of tf.data and Keras, which prints what must not depend on who looks: the
files in the order in which they come out, and the states of random generators. Called with a
directory and the names of what is to be done."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import threading

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras
import tensorflow as tf

EPOCHS = 3


def paths_in(root):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(root) for f in files)


def read(dataset, epochs=EPOCHS):
    came = []
    for _ in range(epochs):
        came.append(hashlib.sha256())
        for batch in dataset:
            came[-1].update(
                repr(np.asarray(batch[0] if isinstance(batch, tuple) else batch)).encode()
            )
    return [each.hexdigest() for each in came]


def content(path):
    return tf.reduce_sum(tf.cast(tf.io.decode_png(tf.io.read_file(path)), tf.int64))


def shuffled(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root))
    return read(files.shuffle(40, seed=3).map(content).batch(8))


def reshuffled_never(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root))
    files = files.shuffle(1000, seed=3, reshuffle_each_iteration=False)
    return read(files.map(content, num_parallel_calls=tf.data.AUTOTUNE).batch(8).prefetch(2))


def list_files(root):
    return read(tf.data.Dataset.list_files(os.path.join(root, "*", "*"), seed=7).map(content))


def sequential(root):
    return read(tf.data.Dataset.from_tensor_slices(paths_in(root)).map(content).shuffle(30, seed=1))


def labelled(root):
    paths = paths_in(root)
    both = tf.data.Dataset.from_tensor_slices((paths, list(range(len(paths)))))
    both = both.shuffle(len(paths), seed=9).map(lambda path, label: (content(path), label))
    return read(both.batch(4))


def repeated(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).shuffle(50, seed=4)
    return read(files.repeat(2).map(content).batch(16), epochs=1)


def sharded(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).shard(3, 1).shuffle(50, seed=4)
    return read(files.skip(2).take(20).map(content))


def global_seed(root):
    tf.random.set_seed(11)
    files = tf.data.Dataset.from_tensor_slices(paths_in(root))
    return read(files.shuffle(64).map(content).batch(8))


def keras_directory(root):
    both = keras.utils.image_dataset_from_directory(
        root, seed=5, image_size=(8, 8), batch_size=4, validation_split=0.2, subset="both",
        verbose=False,
    )  # fmt: skip
    return [read(each) for each in both]


def keras_fit(root):
    images = keras.utils.image_dataset_from_directory(
        root, seed=6, image_size=(8, 8), batch_size=8, verbose=False
    )
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Flatten(), keras.layers.Dense(7)]
    model = keras.Sequential([keras.layers.Rescaling(1 / 255), *layers])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    fitted = model.fit(images, epochs=EPOCHS, verbose=0)
    return [loss.hex() for loss in fitted.history["loss"]]


def seed_of_all(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root))
    return read(files.shuffle(200).map(content))


def unseeded(root):
    seed_of_all(root)


def in_a_graph(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).shuffle(40, seed=3).map(content)

    @tf.function
    def total():
        found = tf.constant(0, tf.int64)
        for each in files:
            found += each
        return found

    return [int(total()) for _ in range(2)]


def cached(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).map(content).cache()
    return read(files)


def cached_paths(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).shuffle(90, seed=2).cache()
    return read(files.shuffle(40, seed=3).map(content).batch(8))


def with_paths(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).shuffle(200, seed=3)
    both = files.map(lambda path: (content(path), path)).shuffle(100, seed=4)
    return read(both.filter(lambda total, path: total % 5 != 0).batch(8))


def records(root):
    files = tf.data.Dataset.from_tensor_slices(paths_in(root)).shuffle(200, seed=3)
    woven = files.interleave(tf.data.TextLineDataset, cycle_length=3).shuffle(50, seed=1)
    return [read(woven.batch(9)), read(tf.data.TextLineDataset(files).batch(9))]


def generated(root):
    listed, order = paths_in(root), random.Random(3)

    def drawn():
        order.shuffle(listed)
        yield from listed

    files = tf.data.Dataset.from_generator(drawn, output_signature=tf.TensorSpec((), tf.string))
    return read(files.map(content).batch(8))


def odd(root):
    first = read(tf.data.Dataset.range(10))
    second = read(tf.data.Dataset.from_tensor_slices(["/nowhere/a", "b"]))
    third = read(tf.data.Dataset.from_generator(lambda: iter(range(3)), tf.int64))
    return [first, second, third]


def main():
    root, names = sys.argv[1], sys.argv[2:]
    if names != ["unseeded"]:
        keras.utils.set_random_seed(42)
    said = {name: globals()[name](root) for name in names}
    states = [repr(random.getstate()), repr(np.random.get_state())]
    said["states"] = [hashlib.sha256(each.encode()).hexdigest() for each in states]
    said["threads"] = threading.active_count()
    if names != ["unseeded"]:
        said["drawn"] = float(tf.random.uniform(())).hex()
    said["modules"] = [name for name in sys.modules if "fanstore" in name]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
