"""Code that runs in a job's own Python, 3.8 or later, with only the standard library: it finds out
the order in which a loader of torch or tf.data will read. FanStore itself does not import it."""
