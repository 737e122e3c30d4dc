# does: imread, imwrite, VideoWriter and VideoCapture
# needs: opencv-python-headless numpy
import cv2
import numpy as np
from case import run


def make(directory):
    for n in range(10):
        cv2.imwrite(str(directory / f"{n}.png"), np.full((64, 64, 3), n * 20, "u1"))


def use(directory):
    frames = [cv2.imread(str(directory / f"{n}.png")) for n in range(10)]
    print(sum(int(f.sum()) for f in frames))
    print(cv2.imwrite(str(directory / "out" / "x.png"), frames[4]))
    film = cv2.VideoWriter(
        str(directory / "out" / "f.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 64)
    )
    for frame in frames:
        film.write(frame)
    film.release()
    shown = cv2.VideoCapture(str(directory / "out" / "f.avi"))
    print(int(shown.get(cv2.CAP_PROP_FRAME_COUNT)))


run(make, use)
