"""Libraries that write: checkpoints, logs, arrays, archives, databases, packages."""

import importlib.util
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tarfile
import zipfile

from out_client import KIND, D, Other, W, facts, get, names, p, put, show, tell

FILTER = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}  # since Python 3.11.4


def library(name):
    """The module, or None: then both sides show that it is missing."""
    if importlib.util.find_spec(name) is None:
        show("not installed", name)
        return None
    return importlib.import_module(name)


def case_pickle_checkpoints():
    for step in range(4):
        with open(p("tmp.ckpt"), "wb") as file:
            pickle.dump({"step": step, "weights": list(range(20_000))}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(p("tmp.ckpt"), p("last.ckpt"))
        if step % 2 == 0:
            with open(p("last.ckpt"), "rb") as file, open(p(f"step{step}.ckpt"), "wb") as copy:
                copy.write(file.read())
    with open(p("last.ckpt"), "rb") as file:
        show("step", pickle.load(file)["step"], names())


def case_torch_checkpoints():
    torch = library("torch")
    if torch is None:
        return
    torch.manual_seed(0)
    model = torch.nn.Linear(100, 50)
    for step in range(2):
        torch.save({"model": model.state_dict(), "step": step}, p("model.tmp"))
        os.replace(p("model.tmp"), p("model.pt"))
    torch.save(model.state_dict(), p("old.pt"), _use_new_zipfile_serialization=False)
    old = torch.load(p("old.pt"), weights_only=True)
    show("old", bool((old["weight"] == model.weight).all()))
    os.unlink(p("old.pt"))
    with open(p("stream.pt"), "wb") as file:
        torch.save(torch.arange(1000), file)
    loaded = torch.load(p("model.pt"), weights_only=True)
    mapped = torch.load(p("model.pt"), weights_only=True, mmap=True)
    show("step", loaded["step"], bool((loaded["model"]["weight"] == model.weight).all()))
    show("mapped", bool((mapped["model"]["weight"] == model.weight).all()), names())


def case_numpy_files():
    import numpy as np

    np.save(p("a.npy"), np.arange(10_000).reshape(100, 100))
    np.savetxt(p("t.csv"), np.arange(12).reshape(3, 4), fmt="%d")
    np.arange(5).tofile(p("raw"))
    show("sum", int(np.load(p("a.npy")).sum()), np.loadtxt(p("t.csv")).tolist())
    show("mapped", int(np.load(p("a.npy"), mmap_mode="r")[5, 5]), np.fromfile(p("raw"), int).sum())
    changed = np.load(p("a.npy"), mmap_mode="r+")
    changed[0, 0] = 77
    changed.flush()
    del changed
    show("changed", int(np.load(p("a.npy"))[0, 0]))


def case_numpy_savez():
    """The archives carry times: only what is in them is compared."""
    import numpy as np

    np.savez(p("pair.npz"), a=np.arange(5), b=np.ones(3))
    np.savez_compressed(p("small.npz"), a=np.zeros(10_000))
    with np.load(p("pair.npz")) as pair, np.load(p("small.npz")) as small:
        show("found", pair["a"].tolist(), pair["b"].sum(), small["a"].shape)


def case_numpy_memmap():
    import numpy as np

    made = np.memmap(p("m"), dtype="f4", mode="w+", shape=(1000, 10))
    made[:] = 3
    made[999, 9] = 4
    del made
    again = np.memmap(p("m"), dtype="f4", mode="r+", shape=(1000, 10))
    again[0, 0] = 5
    again.flush()
    show("sum", float(np.memmap(p("m"), dtype="f4", mode="r").sum()))
    del again
    show("size", os.path.getsize(p("m")))


def case_memmap_until_exit():
    code = """
import sys
import numpy as np
made = np.memmap(sys.argv[1], dtype="u1", mode="w+", shape=100_000)
made[:] = 7
"""
    show("exit", subprocess.run([sys.executable, "-c", code, p("m")], check=False).returncode)
    import time

    end = time.monotonic() + 20
    while not os.path.exists(p("m")) and time.monotonic() < end:
        time.sleep(0.01)
    show("content", get(p("m")) == b"\7" * 100_000)


def case_events_are_appended():
    """As TensorBoard's writers: one file, flushed again and again, opened anew at times."""
    path = p("events.out.tfevents")
    for run in range(3):
        with open(path, "ab") as file:
            for step in range(20):
                file.write(json.dumps({"run": run, "step": step, "loss": 1 / (step + 1)}).encode())
                file.write(b"\n")
                file.flush()
        with open(path, "rb") as file:
            show("records", len(file.readlines()))


def case_tensorboard():
    if importlib.util.find_spec("tensorboard") is None:
        show("not installed")
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(p("logs")) as writer:
        writer.add_scalar("loss", 1.0, 1)
    [name] = names(p("logs"))
    os.rename(p("logs", name), p("logs", "events"))
    show("size", os.path.getsize(p("logs", "events")) > 0)
    os.unlink(p("logs", "events"))


def case_logging():
    import logging
    from logging.handlers import RotatingFileHandler

    logger = logging.getLogger("client")
    plain = logging.FileHandler(p("log.txt"))
    turning = RotatingFileHandler(p("turning.txt"), maxBytes=200, backupCount=3)
    for handler in (plain, turning):
        logger.addHandler(handler)
    for i in range(40):
        logger.warning("message %d", i)
    logging.shutdown()
    show("now", names(), get(p("log.txt"))[-12:], get(p("turning.txt")))


def case_h5py():
    h5py = library("h5py")
    if h5py is None:
        return
    with h5py.File(p("d.h5"), "w") as file:
        file["x"] = list(range(1000))
        file.create_dataset("z", (0, 50), maxshape=(None, 50), chunks=(10, 50), compression="gzip")
    for i in range(3):
        with h5py.File(p("d.h5"), "a") as file:
            file["z"].resize((10 * (i + 1), 50))
            file["z"][10 * i :] = i
    with h5py.File(p("d.h5"), "r") as file:
        show("found", int(file["x"][:].sum()), float(file["z"][:].sum()), file["z"].shape)
    with h5py.File(p("d.h5"), "r+") as file:
        del file["x"]
        tell("opened twice", lambda: h5py.File(p("d.h5"), "r+").close())
    show("keys", list(h5py.File(p("d.h5"), "r")))


def case_zipfile():
    info = [zipfile.ZipInfo(f"dir/m{i}.txt") for i in range(4)]
    with zipfile.ZipFile(p("a.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for each in info[:3]:
            archive.writestr(each, b"member\n" * 500)
    with zipfile.ZipFile(p("a.zip"), "a") as archive:
        archive.writestr(info[3], b"appended")
    with zipfile.ZipFile(p("a.zip")) as archive:
        show("test", archive.testzip(), archive.namelist())
        archive.extractall(p("out"))
    show("out", names(p("out", "dir")), get(p("out", "dir", "m3.txt")))


def case_tarfile():
    put(p("f"), b"x" * 10_000)
    os.symlink("f", p("link"))
    os.mkdir(p("d"))
    for name in ("f", "link", "d"):
        os.utime(p(name), ns=(10**18, 10**18), follow_symlinks=False)
    for mode in ("w", "w:xz"):
        with tarfile.open(p("a.tar"), mode) as archive:
            for name in ("f", "link", "d"):
                archive.add(p(name), name)
        with tarfile.open(p("a.tar")) as archive:
            show(mode, archive.getnames())
            archive.extractall(p("out_" + mode[2:]), **FILTER)
        show("out", names(p("out_" + mode[2:])), facts(p("out_" + mode[2:], "f")))


def case_sqlite():
    for journal in ("delete", "truncate", "memory", "wal"):
        path = p(f"{journal}.db")
        base = sqlite3.connect(path)
        show("mode", base.execute(f"pragma journal_mode={journal}").fetchone())
        base.execute("create table t (a integer primary key, b text)")
        with base:
            base.executemany("insert into t(b) values (?)", [(f"row {i}",) for i in range(500)])
        with base:
            base.execute("update t set b = 'changed' where a % 2 = 0")
        base.execute("delete from t where a > 400")
        base.rollback()
        show("count", base.execute("select count(*), min(b) from t").fetchone())
        base.close()
        base = sqlite3.connect(path)
        show("check", base.execute("pragma integrity_check").fetchone())
        show("count", base.execute("select count(*) from t").fetchone())
        base.execute("vacuum")
        base.close()
    show("now", names())


def case_dbm_and_shelve():
    import dbm.dumb
    import shelve

    with shelve.Shelf(dbm.dumb.open(p("shelf"), "c")) as shelf:
        shelf["a"] = [1, 2, 3]
        shelf["b"] = {"x": 1}
    with shelve.Shelf(dbm.dumb.open(p("shelf"), "r")) as shelf:
        show("found", sorted(shelf), shelf["a"])


def case_images():
    pil, cv2 = library("PIL"), library("cv2")
    if pil is None or cv2 is None:
        return
    import numpy as np
    from PIL import Image

    picture = (np.indices((40, 50)).sum(axis=0) * 2).astype("u1")
    Image.fromarray(picture).save(p("a.png"))
    show("cv2", cv2.imwrite(p("b.png"), picture), cv2.imwrite(p("c.bmp"), picture))
    show("same", bool((cv2.imread(p("a.png"), 0) == picture).all()))
    show("same", bool((np.asarray(Image.open(p("b.png"))) == picture).all()))


def case_python_byte_code():
    import compileall

    os.mkdir(p("package"))
    put(p("package", "__init__.py"), b"from . import part\n")
    put(p("package", "part.py"), b"VALUE = 42\n")
    show("compiled", bool(compileall.compile_dir(p("package"), quiet=1)))
    code = "import package.part; print(package.part.VALUE, package.part.__cached__ is not None)"
    done = subprocess.run([sys.executable, "-c", code], cwd=D, capture_output=True, check=False)
    show("import", done.stdout, done.stderr)


PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny-package"
version = "1.0"
[tool.setuptools]
packages = ["tiny"]
"""


def pip(*arguments, **options):
    common = ["--disable-pip-version-check", "--no-input", "--quiet", "--no-cache-dir"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *common], capture_output=True, check=False,
        env={**os.environ, "PIP_NO_INDEX": "1", "TMPDIR": W}, **options
    )  # fmt: skip
    show("pip", done.returncode, done.stderr.decode()[-800:])


def tiny_wheel(path):
    files = {
        "tiny/__init__.py": "from tiny.part import VALUE\n",
        "tiny/part.py": "VALUE = 'from a wheel'\n",
        "tiny_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-package\n"
        "Version: 1.0\n",
        "tiny_package-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_package-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
    }
    record = "tiny_package-1.0.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
        archive.writestr(zipfile.ZipInfo(record), "".join(f"{n},,\n" for n in (*files, record)))


def case_pip_install_of_a_wheel():
    if KIND == "input":
        return
    wheel = f"{W}/tiny_package-1.0-py3-none-any.whl"
    tiny_wheel(wheel)
    pip("install", "--target", p("site"), "--no-deps", "--no-compile", wheel)
    code = "import tiny; print(tiny.VALUE)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": p("site")},
        capture_output=True, check=False,
    )  # fmt: skip
    show("import", done.stdout, done.stderr, names(p("site")))
    os.unlink(wheel)


def case_sdist_is_built_in_the_tree():
    """setuptools builds where the sources lie."""
    if KIND == "input":
        return
    os.makedirs(p("src", "tiny"))
    put(p("src", "pyproject.toml"), PROJECT.encode())
    put(p("src", "tiny", "__init__.py"), b"VALUE = 'built'\n")
    code = "from setuptools import setup; setup()"
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "build", "--build-lib", p("lib")], cwd=p("src"),
        capture_output=True, check=False,
    )  # fmt: skip
    show("built", done.returncode, done.stderr.decode()[-800:], names(p("lib", "tiny")))


def case_process_pool_writes():
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2) as pool:
        show("paths", len(list(pool.map(put, [p(f"f{i}") for i in range(20)]))))
    show("now", names())


def case_one_writes_many_read():
    others = [Other() for _ in range(3)]
    for step in range(10):
        put(p("state.tmp"), b"%d" % step * 100_000)
        os.replace(p("state.tmp"), p("state"))
        found = {other.ask(f"get({p('state')!r}) == b'{step}' * 100_000") for other in others}
        show("whole", found)
    for other in others:
        other.end()
