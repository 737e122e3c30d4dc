# does: read WAV, FLAC and Ogg, blocks of one, write, append to what was written
# needs: soundfile numpy
import numpy as np
import soundfile as sf
from case import run

WAVE = np.sin(np.arange(16000) / 10)


def make(directory):
    for suffix in ("wav", "flac", "ogg"):
        sf.write(directory / f"a.{suffix}", WAVE, 8000)


def use(directory):
    for suffix in ("wav", "flac", "ogg"):
        sound, rate = sf.read(directory / f"a.{suffix}")
        print(suffix, rate, len(sound), len(list(sf.blocks(directory / f"a.{suffix}", 4000))))
        sf.write(directory / "out" / f"b.{suffix}", sound, rate)
    with sf.SoundFile(directory / "out" / "b.wav", "r+") as file:
        file.seek(0, sf.SEEK_END)
        file.write(WAVE)
    print(sf.info(directory / "out" / "b.wav").frames)


run(make, use)
