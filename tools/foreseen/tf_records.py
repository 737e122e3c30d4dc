# does: tf.data: shards in another order each epoch, read by interleave
# needs: tensorflow
import tensorflow as tf
from tffiles import BATCH, read, shards

files = tf.data.Dataset.from_tensor_slices(shards()).shuffle(80, seed=3)
blocks = files.interleave(
    lambda path: tf.data.FixedLengthRecordDataset(path, 512),
    cycle_length=4,
    num_parallel_calls=tf.data.AUTOTUNE,
)
read(blocks.shuffle(1000).batch(BATCH))
