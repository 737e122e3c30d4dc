"""The libraries that training jobs read with. A case's name begins with the module it needs."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import hashlib
import os
import sys

from contrast_client import HELLO, MISSING, T, W, fails, run, same, show

ARRAYS = f"{T}/arrays"
IMAGES = sorted(f"{T}/img/{label}/{i}.png" for label in ("cat", "dog") for i in range(4))


def digest(data):
    return hashlib.md5(data).hexdigest()


def case_numpy_load():
    import numpy as np

    show(
        "npy",
        digest(np.load(f"{ARRAYS}/a.npy").tobytes()),
        np.load(f"{ARRAYS}/fortran.npy").flags.f_contiguous,
    )
    with np.load(f"{ARRAYS}/pair.npz") as pair:
        show("npz", sorted(pair.files), pair["a"].tolist(), pair["b"].tolist())
    fails("ENOENT", np.load, MISSING)


def case_numpy_load_mmap_mode():
    import numpy as np

    for mode in ("r", "c"):
        array = np.load(f"{ARRAYS}/a.npy", mmap_mode=mode)
        show(mode, type(array).__name__, array.shape, int(array.sum()), array[299, 199].item())
    array[0, 0] = 77
    show("copy on write", array[0, 0].item(), np.load(f"{ARRAYS}/a.npy")[0, 0].item())


def case_numpy_fromfile():
    import numpy as np

    show("whole", digest(np.fromfile(f"{ARRAYS}/raw.f64").tobytes()))
    show("part", np.fromfile(f"{ARRAYS}/raw.f64", count=5, offset=80).tolist())
    with open(f"{ARRAYS}/raw.f64", "rb") as file:
        file.seek(16)
        show("from a file object", np.fromfile(file, count=3).tolist(), file.tell())
        show("then Python reads on", file.read(8))


def case_numpy_memmap():
    import numpy as np

    view = np.memmap(f"{ARRAYS}/raw.f64", dtype="f8", mode="r")
    show("sum", float(view.sum()), view.shape)
    view = np.memmap(f"{ARRAYS}/raw.f64", dtype="f8", mode="r", offset=4104, shape=(10,))
    show("offset", view.tolist())
    view = np.memmap(f"{T}/bin/mid.bin", dtype="u1", mode="c")
    view[:3] = 9
    show("copy on write", view[:5].tolist(), digest(view.tobytes()))


def case_numpy_loadtxt():
    import numpy as np

    show("csv", np.loadtxt(f"{ARRAYS}/table.csv", delimiter=",").tolist())
    show("genfromtxt", np.genfromtxt(f"{ARRAYS}/table.csv", delimiter=",").sum().item())


def case_numpy_memmap_in_workers():
    import multiprocessing

    import numpy as np

    view = np.load(f"{ARRAYS}/a.npy", mmap_mode="r")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        show("sums", pool.map(row_sum, [view[i] for i in range(0, 300, 30)]))


def row_sum(row):
    return int(row.sum())


def case_PIL_open():
    from PIL import Image

    for path in IMAGES:
        with Image.open(path) as image:
            show(path, image.size, image.mode, image.format, digest(image.tobytes()))


def case_PIL_formats_and_lazy_loading():
    from PIL import Image

    for name in ("photo.jpg", "photo.bmp", "large.jpg"):
        image = Image.open(f"{T}/img/{name}")
        show(name, image.size, image.getexif().get(1), image.info.get("dpi"))
        image.draft("L", (50, 50))
        show("loaded", digest(image.convert("L").resize((20, 20)).tobytes()))
    with open(IMAGES[0], "rb") as file:
        show("file object", Image.open(file).verify())


def case_PIL_saves_to_scratch():
    from PIL import Image

    Image.open(IMAGES[0]).rotate(90).save(f"{W}/rotated.png")
    fails("ENOENT", Image.open, MISSING)
    fails("EISDIR", Image.open, f"{T}/img")


def case_cv2_imread():
    os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
    import cv2

    for path in [*IMAGES, f"{T}/img/photo.jpg", f"{T}/img/photo.bmp", f"{T}/img/large.jpg"]:
        for flag in (cv2.IMREAD_COLOR, cv2.IMREAD_GRAYSCALE, cv2.IMREAD_UNCHANGED):
            show(path, digest(cv2.imread(path, flag).tobytes()))
    show("missing", cv2.imread(MISSING) is None, cv2.haveImageReader(IMAGES[0]))


def case_cv2_imdecode_of_a_map():
    import cv2
    import numpy as np

    data = np.memmap(f"{T}/img/large.jpg", dtype="u1", mode="r")
    show("decoded", digest(cv2.imdecode(data, cv2.IMREAD_COLOR).tobytes()))


def case_h5py_reads():
    import h5py

    with h5py.File(f"{ARRAYS}/data.h5", "r") as file:
        show(
            "keys",
            sorted(file),
            int(file["x"][:].sum()),
            file["z"][5:7, :3].tolist(),
            file["z"].chunks,
        )
    with h5py.File(f"{ARRAYS}/data.h5", "r", libver="latest", rdcc_nbytes=0) as file:
        show("slice", file["x"][10:20].tolist())


def case_h5py_file_object_and_failures():
    import h5py

    with open(f"{ARRAYS}/data.h5", "rb") as raw, h5py.File(raw, "r") as file:
        show("file object", file["x"][3].item())
    for path in (HELLO, MISSING):
        try:
            h5py.File(path, "r")
        except OSError as error:
            show("refused", type(error).__name__)
    show("is_hdf5", h5py.is_hdf5(HELLO), h5py.is_hdf5(f"{ARRAYS}/data.h5"))


def case_h5py_two_readers():
    import h5py

    first = h5py.File(f"{ARRAYS}/data.h5", "r")
    second = h5py.File(f"{ARRAYS}/data.h5", "r")
    show("both", first["x"][1].item(), second["x"][2].item())


class Pictures:
    """A map-style dataset as trainers write it."""

    def __init__(self):
        self.paths = sorted(
            entry.path
            for label in os.scandir(f"{T}/img")
            if label.is_dir()
            for entry in os.scandir(label.path)
        )

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with open(self.paths[i], "rb") as file:
            return self.paths[i], digest(file.read())


def load(workers, **options):
    from torch.utils.data import DataLoader

    loader = DataLoader(Pictures(), batch_size=3, num_workers=workers, **options)
    for _ in range(2):
        show(str(workers), [list(map(list, batch)) for batch in loader])


def case_torch_dataloader_in_process():
    load(0)


def case_torch_dataloader_two_workers():
    load(2)


def case_torch_dataloader_spawned_and_persistent():
    load(2, multiprocessing_context="spawn", persistent_workers=True, prefetch_factor=2)


def case_torch_load_and_from_file():
    import torch

    show(
        "from_file",
        float(torch.from_file(f"{ARRAYS}/raw.f64", size=100, dtype=torch.float64).sum()),
    )
    torch.save({"a": torch.arange(5)}, f"{W}/saved.pt")
    show("own file", torch.load(f"{W}/saved.pt")["a"].tolist())


def case_sklearn_joblib_load():
    import joblib
    import numpy as np

    joblib.dump(np.arange(1000), f"{W}/dumped")
    show("own", int(joblib.load(f"{W}/dumped", mmap_mode="r").sum()))
    show("text", joblib.hash(open(HELLO).read()))


def case_pandas_read_csv():
    import pandas

    show("csv", pandas.read_csv(f"{ARRAYS}/table.csv", header=None).sum().tolist())


if __name__ == "__main__":
    same("interpreter", os.path.exists(sys.executable), True)
    run(globals())
