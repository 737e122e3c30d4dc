# does: NIfTI: a slice of a compressed volume, a mapped one, save
# needs: nibabel numpy
import nibabel as nib
import numpy as np
from case import run


def make(directory):
    volume = nib.Nifti1Image(np.arange(8000, dtype="i2").reshape(20, 20, 20), np.eye(4))
    nib.save(volume, directory / "a.nii.gz")
    nib.save(volume, directory / "a.nii")


def use(directory):
    for name in ("a.nii.gz", "a.nii"):
        volume = nib.load(directory / name)
        print(volume.dataobj[5].sum(), volume.get_fdata().sum())
        nib.save(volume, directory / "out" / name.replace(".gz", ""))
    print(nib.load(directory / "out" / "a.nii").shape)


run(make, use)
