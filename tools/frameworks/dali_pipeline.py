# does: readers.file, readers.numpy and decoders.image on the CPU (C++)
# needs: nvidia-dali-cuda130 numpy pillow
import numpy as np
from case import run
from PIL import Image


def make(directory):
    (directory / "images" / "cat").mkdir(parents=True)
    (directory / "arrays").mkdir()
    for n in range(8):
        Image.new("RGB", (16, 16), (n, n, n)).save(directory / "images" / "cat" / f"{n}.jpg")
        np.save(directory / "arrays" / f"{n}.npy", np.full(100, n, "f4"))


def use(directory):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=8, num_threads=2, device_id=None)
    def batches():
        jpegs, labels = fn.readers.file(file_root=str(directory / "images"))
        arrays = fn.readers.numpy(file_root=str(directory / "arrays"), file_filter="*.npy")
        return fn.decoders.image(jpegs, device="cpu"), labels, arrays

    pipeline = batches()
    pipeline.build()
    images, _, arrays = pipeline.run()
    sums = [int(np.asarray(image).mean()) for image in images]
    print(sums, sum(float(np.asarray(array).sum()) for array in arrays))
    np.save(directory / "out" / "sums.npy", sums)


run(make, use)
