# does: load and stream audio, features saved (numba, soundfile)
# needs: librosa soundfile numpy
import numpy as np
import soundfile
from case import run


def make(directory):
    soundfile.write(directory / "a.wav", np.sin(np.arange(16000) / 10), 8000)


def use(directory):
    import librosa

    wave, rate = librosa.load(directory / "a.wav", sr=None)
    print(rate, wave.shape, librosa.get_duration(path=directory / "a.wav"))
    features = librosa.feature.melspectrogram(y=wave, sr=rate, n_mels=16)
    np.savez_compressed(directory / "out" / "features.npz", mel=features)
    print(np.load(directory / "out" / "features.npz")["mel"].shape)
    print(
        sum(
            1
            for _ in librosa.stream(
                directory / "a.wav", block_length=4, frame_length=512, hop_length=512
            )
        )
    )


run(make, use)
