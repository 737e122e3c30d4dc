# does: tf.data: the list of paths is cached, and shuffled after that
# needs: tensorflow
import tensorflow as tf
from tffiles import BATCH, content, paths, read

files = tf.data.Dataset.from_tensor_slices(paths()).cache().shuffle(500, seed=3)
read(files.map(content).batch(BATCH))
