# does: PyAV: decode, seek, encode MP4 (its header is written last)
# needs: av numpy
import av
import numpy as np
from case import run


def write(path):
    with av.open(str(path), "w", options={"movflags": "faststart"}) as film:
        stream = film.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        for n in range(50):
            picture = np.full((64, 64, 3), 5 * n, "u1")
            film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        film.mux(stream.encode())


def frames(path):
    with av.open(str(path)) as film:
        film.seek(2_000_000)
        return [round(frame.to_ndarray(format="rgb24").mean()) for frame in film.decode(video=0)]


def make(directory):
    write(directory / "a.mp4")


def use(directory):
    print(frames(directory / "a.mp4")[:3])
    write(directory / "out" / "b.mp4")
    print(len(frames(directory / "out" / "b.mp4")))


run(make, use)
