"""What runs in a job's own Python, from 3.8 on and with nothing but the standard library: finding
out in which order a loader of torch is going to read. FanStore itself imports nothing of it."""
