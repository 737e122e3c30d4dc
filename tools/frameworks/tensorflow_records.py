# does: TFRecordDataset with parallel reads, matching_files, tf.train.Checkpoint, SavedModel
# needs: tensorflow-cpu
import tensorflow as tf
from case import run


def make(directory):
    for shard in range(3):
        with tf.io.TFRecordWriter(str(directory / f"r-{shard}.tfrecord")) as sink:
            for n in range(100):
                sink.write(str(n).encode())


def use(directory):
    files = tf.data.Dataset.list_files(str(directory / "*.tfrecord"), shuffle=False)
    records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=2)
    print(sum(int(r.numpy()) for r in records))
    root = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]))
    path = root.save(str(directory / "out" / "ckpt"))
    again = tf.train.Checkpoint(v=tf.Variable([0.0, 0.0]))
    again.restore(path)
    print(again.v.numpy().sum(), tf.train.latest_checkpoint(str(directory / "out"))[-6:])
    module = tf.Module()
    module.v = tf.Variable(3.0)
    tf.saved_model.save(module, str(directory / "out" / "saved"))
    print(float(tf.saved_model.load(str(directory / "out" / "saved")).v))


run(make, use)
