# does: VideoReader: frames by number, a batch
# needs: decord opencv-python-headless numpy
import cv2
import numpy as np
from case import run


def make(directory):
    sink = cv2.VideoWriter(str(directory / "a.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 64))
    for n in range(20):
        sink.write(np.full((64, 64, 3), 10 * n, "u1"))
    sink.release()


def use(directory):
    import decord

    film = decord.VideoReader(str(directory / "a.avi"), num_threads=1)
    batch = film.get_batch([3, 15]).asnumpy()
    print(len(film), film[5].shape, batch.mean().round())
    np.save(directory / "out" / "batch.npy", batch)


run(make, use)
