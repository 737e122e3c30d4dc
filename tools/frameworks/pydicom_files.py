# does: dcmread with deferred reads, pixel data, save_as
# needs: pydicom numpy
import numpy as np
import pydicom
from case import run
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian


def make(directory):
    for n in range(3):
        scan = pydicom.Dataset()
        scan.file_meta = pydicom.dataset.FileMetaDataset()
        scan.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        scan.file_meta.MediaStorageSOPClassUID = CTImageStorage
        scan.file_meta.MediaStorageSOPInstanceUID = f"1.2.{n}"
        scan.SOPClassUID, scan.SOPInstanceUID = CTImageStorage, f"1.2.{n}"
        scan.set_pixel_data(
            np.full((16, 16), n, "u2"), "MONOCHROME2", 16, generate_instance_uid=False
        )
        scan.save_as(directory / f"{n}.dcm", enforce_file_format=True)


def use(directory):
    for path in sorted(directory.glob("*.dcm")):
        scan = pydicom.dcmread(path, defer_size=100)
        print(path.name, int(scan.pixel_array.sum()))
        scan.PatientID = "nobody"
        scan.save_as(directory / "out" / path.name)
    print(pydicom.dcmread(directory / "out" / "2.dcm", stop_before_pixels=True).PatientID)


run(make, use)
