"""Code that runs in the Python of a job's own programs (3.8 or later, standard library only). It
finds out in which order a loader of torch or tf.data will read. FanStore itself does not import
it."""
