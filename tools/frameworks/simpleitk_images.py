# does: a series of slices, MetaImage and NRRD, read and written (C++)
# needs: SimpleITK
import SimpleITK as sitk
from case import run


def make(directory):
    image = sitk.GaussianSource(sitk.sitkUInt16, [32, 32, 4], [8] * 3, [16, 16, 2])
    for suffix in ("mha", "nrrd"):
        sitk.WriteImage(image, directory / f"a.{suffix}")
    sitk.WriteImage(image, [directory / f"{n}.png" for n in range(4)])


def use(directory):
    print(sitk.ReadImage(sorted(directory.glob("*.png"))).GetSize())
    for suffix in ("mha", "nrrd"):
        image = sitk.ReadImage(directory / f"a.{suffix}")
        sitk.WriteImage(sitk.Median(image), directory / "out" / f"b.{suffix}", True)
        print(sitk.ReadImage(directory / "out" / f"b.{suffix}")[16, 16, 2])


run(make, use)
