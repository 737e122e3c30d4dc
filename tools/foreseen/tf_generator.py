# does: tf.data: from_generator over a list of paths, shuffled each epoch
# needs: tensorflow
import random

import tensorflow as tf
from tffiles import BATCH, content, paths, read

listed, order = paths(), random.Random(3)


def drawn():
    order.shuffle(listed)
    yield from listed


files = tf.data.Dataset.from_generator(drawn, output_signature=tf.TensorSpec((), tf.string))
read(files.map(content).batch(BATCH))
