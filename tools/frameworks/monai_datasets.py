# does: PersistentDataset with its cache in the mount, CacheDataset, LoadImage, SaveImage
# needs: monai nibabel torch numpy
import logging

import nibabel as nib
import numpy as np
from case import run


def make(directory):
    for n in range(4):
        nib.save(nib.Nifti1Image(np.full((8, 8, 8), n, "f4"), np.eye(4)), directory / f"{n}.nii.gz")


def use(directory):
    from monai import data, transforms

    logging.disable()
    turn = transforms.LoadImage(image_only=True, ensure_channel_first=True)
    paths = sorted(str(path) for path in directory.glob("*.nii.gz"))
    for _ in range(2):
        kept = data.PersistentDataset(paths, turn, cache_dir=directory / "out" / "cache")
        loader = data.DataLoader(kept, batch_size=2, num_workers=2)
        print(sum(float(batch.sum()) for batch in loader))
    cached = data.CacheDataset(paths, turn, num_workers=2, progress=False)
    save = transforms.SaveImage(directory / "out" / "saved", print_log=False)
    for image in cached:
        save(image)


if __name__ == "__main__":
    run(make, use)
