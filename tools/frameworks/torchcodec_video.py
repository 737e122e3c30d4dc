# does: VideoDecoder and AudioDecoder (FFmpeg), AudioEncoder
# needs: torchcodec torch av numpy
import av
import numpy as np
import torch
from case import run


def make(directory):
    from torchcodec.encoders import AudioEncoder

    with av.open(str(directory / "a.mp4"), "w") as film:
        stream = film.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        for n in range(20):
            picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 10 * n, "u1"), format="rgb24")
            film.mux(stream.encode(picture))
        film.mux(stream.encode())
    AudioEncoder(torch.zeros(1, 8000), sample_rate=8000).to_file(str(directory / "a.wav"))


def use(directory):
    from torchcodec.decoders import AudioDecoder, VideoDecoder
    from torchcodec.encoders import AudioEncoder

    film = VideoDecoder(str(directory / "a.mp4"))
    print(len(film), int(film[5].float().mean()), film.get_frames_at([3, 15]).data.shape)
    print(AudioDecoder(str(directory / "a.wav")).get_all_samples().data.shape)
    sound = torch.linspace(-1, 1, 8000)[None]
    AudioEncoder(sound, sample_rate=8000).to_file(str(directory / "out" / "b.wav"))
    print(AudioDecoder(str(directory / "out" / "b.wav")).get_all_samples().data.shape)


run(make, use)
