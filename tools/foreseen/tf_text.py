# does: tf.data: paths stay in the element next to the image
# needs: tensorflow
import tensorflow as tf
from tffiles import BATCH, content, labels, paths, read

both = tf.data.Dataset.from_tensor_slices((paths(), labels())).shuffle(500, seed=3)
read(both.map(lambda path, label: (content(path), path, label)).shuffle(100, seed=4).batch(BATCH))
