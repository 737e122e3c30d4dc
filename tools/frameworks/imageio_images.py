# does: imread, imwrite of PNG and an animated GIF, a video (an FFmpeg program of its own)
# needs: imageio imageio-ffmpeg numpy
import imageio.v3 as iio
import numpy as np
from case import run

FRAMES = np.stack([np.full((64, 64, 3), 20 * n, "u1") for n in range(10)])


def make(directory):
    iio.imwrite(directory / "a.png", FRAMES[3])
    iio.imwrite(directory / "a.mp4", FRAMES, fps=10)


def use(directory):
    print(iio.imread(directory / "a.png").sum(), iio.imread(directory / "a.mp4").shape)
    iio.imwrite(directory / "out" / "b.gif", FRAMES, duration=100)
    iio.imwrite(directory / "out" / "b.mp4", FRAMES, fps=10)
    print(
        iio.imread(directory / "out" / "b.gif").shape,
        iio.improps(directory / "out" / "b.mp4").shape,
    )


run(make, use)
