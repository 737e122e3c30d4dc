# does: tf.data: interleave over lists of the files of each class
# needs: tensorflow
import os

import tensorflow as tf
from tffiles import BATCH, ROOT, content, read

classes = tf.data.Dataset.from_tensor_slices([f"{ROOT}/class-{n}" for n in range(10)])
files = classes.interleave(
    lambda each: tf.data.Dataset.list_files(tf.strings.join([each, "*"], os.sep), shuffle=False),
    cycle_length=4,
)
read(files.map(content).batch(BATCH))
