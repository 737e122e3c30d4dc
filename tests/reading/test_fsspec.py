"""fanstore:// URLs: fsspec's own tests of reading, and the libraries that open such URLs."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.local import LocalFileSystem, make_path_posix  # noqa: E402
from fsspec.tests.abstract.get import AbstractGetTests  # noqa: E402
from fsspec.tests.abstract.open import AbstractOpenTests  # noqa: E402

TABLE = "name,value\none,1\ntwo,2\nthree,3\n"


def pack(source: Path) -> str:
    packed = source.with_suffix(".fan")
    command = [sys.executable, "-m", "fanstore", "prepare", "--quiet", str(source), str(packed)]
    subprocess.run(command, check=True)
    return str(packed)


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


SCENARIO = ("file1", "file2", "subdir/subfile1", "subdir/subfile2", "subdir/nesteddir/nestedfile")
EDGES = (
    *("file1", "file2", "subdir0/subfile1", "subdir0/subfile2", "subdir0/nesteddir/nestedfile"),
    *("subdir1/subfile1", "subdir1/subfile2", "subdir1/nesteddir/nestedfile"),
)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset with what each of fsspec's fixtures would make."""
    source = tmp_path_factory.mktemp("fsspec") / "source"
    write(source, {f"scenario/{name}": name for name in SCENARIO})
    write(source, {f"edges/{name}": name for name in EDGES})
    write(source, {f"ten/{md5(str(n).encode()).hexdigest()}.txt": str(n) for n in range(10)})
    write(source, {"alike/subdir.txt": "a", "alike/subdir/subfile.txt": "b", "src/file": ""})
    write(source, {"table.csv": TABLE, "more/table.csv": TABLE})
    return pack(source)


class Ours:
    """fsspec's fixtures, for a file system that nobody can write to."""

    @pytest.fixture
    def fs(self, everything: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        found = fsspec.filesystem("fanstore", dataset=everything)
        for name in ("mkdir", "touch"):  # what a test would make is there
            monkeypatch.setattr(found, name, lambda path: None)
        return found

    @pytest.fixture
    def fs_path(self) -> str:
        return "/"

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: os.path.join(*parts)

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self) -> str:
        return "/scenario"

    @pytest.fixture
    def fs_glob_edge_cases_files(self) -> str:
        return "/edges"

    @pytest.fixture
    def fs_10_files_with_hashed_names(self) -> str:
        return "/ten"

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self) -> str:
        return "/alike"

    @pytest.fixture
    def local_fs(self) -> Any:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def local_join(self) -> Any:
        return os.path.join

    @pytest.fixture
    def local_path(self, tmp_path: Path) -> str:
        return make_path_posix(str(tmp_path))

    @pytest.fixture
    def local_target(self, local_fs: Any, local_join: Any, local_path: str) -> str:
        return str(local_join(local_path, "target"))


class TestGet(Ours, AbstractGetTests):
    """get() of files, directories, lists and patterns."""


class TestOpen(Ours):
    """open()."""

    def test_it_is_what_fsspec_tests(self) -> None:
        names = {name for name in vars(AbstractOpenTests) if name.startswith("test_")}
        assert names == {"test_open_exclusive"}  # which writes


@pytest.fixture
def url(everything: str) -> str:
    return f"fanstore://{everything}!/table.csv"


def test_urls_are_opened(url: str, everything: str) -> None:
    with fsspec.open(url, "rt") as stream:
        assert stream.read() == TABLE
    with fsspec.open(url) as stream:
        assert isinstance(stream, io.BufferedReader) and stream.seek(5) == 5
        assert stream.read(5) == TABLE.encode()[5:10]
    found = fsspec.open_files(f"fanstore://{everything}!/**/table.csv")
    assert [each.path for each in found] == ["/more/table.csv", "/table.csv"]
    again = pickle.loads(pickle.dumps(found[0]))
    with again as stream:
        assert stream.read() == TABLE.encode()
    fs, path = fsspec.url_to_fs(url)
    assert (fs.unstrip_protocol(path), fs.isfile(path), fs.isdir("more")) == (url, True, True)
    assert fs is fsspec.filesystem("fanstore", dataset=everything)
    assert pickle.loads(pickle.dumps(fs)) == fs


def test_parts_listings_and_sizes(everything: str) -> None:
    fs = fsspec.filesystem("fanstore", dataset=everything)
    whole = TABLE.encode()
    for start, end in ((None, None), (3, 9), (-5, None), (None, -4), (9, 3), (0, 999)):
        assert fs.cat_file("table.csv", start, end) == whole[start:end]
    assert fs.cat_ranges(["table.csv"] * 2, [0, 5], [3, 9]) == [whole[:3], whole[5:9]]
    assert sorted(fs.ls("", detail=False)) == [
        *("/alike", "/edges", "/more", "/scenario", "/src", "/table.csv", "/ten"),
    ]
    assert fs.du("ten") == 10
    assert fs.find("scenario") == sorted(f"/scenario/{name}" for name in SCENARIO)
    assert fs.info("")["type"] == "directory"
    assert fs.modified("table.csv").tzinfo is not None
    assert sorted(fs.cat("ten/*").values()) == [str(n).encode() for n in range(10)]


@pytest.mark.parametrize(
    "change",
    [
        lambda fs: fs.open("new", "wb"), lambda fs: fs.open("table.csv", "ab"),
        lambda fs: fs.mkdir("d"), lambda fs: fs.makedirs("d/e"), lambda fs: fs.rm("table.csv"),
        lambda fs: fs.pipe("new", b"x"), lambda fs: fs.touch("new"),
        lambda fs: fs.copy("table.csv", "new"), lambda fs: fs.rmdir("more"),
        lambda fs: fs.put_file(__file__, "new"), lambda fs: fs.mv("table.csv", "new"),
    ],
)  # fmt: skip
def test_nothing_can_be_changed(everything: str, change: Any) -> None:
    with pytest.raises(OSError, match="Read-only"):
        change(fsspec.filesystem("fanstore", dataset=everything))


def test_what_is_wrong(everything: str, tmp_path: Path) -> None:
    import fanstore

    with pytest.raises(ValueError, match="no dataset is named"):
        fsspec.filesystem("fanstore")
    for url in (f"fanstore://{tmp_path}/no.fan!/x", "fanstore://no.fan!/x"):
        with pytest.raises(fanstore.FanstoreError, match="no such directory"):
            fsspec.open(url).open()
    fs = fsspec.filesystem("fanstore", dataset=everything)
    for path in ("no", "table.csv/x"):
        for use in (fs.open, fs.info, fs.ls, fs.cat_file):
            with pytest.raises(FileNotFoundError):
                use(path)
    with pytest.raises(IsADirectoryError):
        fs.cat_file("more")


def test_pandas_and_pyarrow_read_tables(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from pyarrow import dataset as arrow

    source = tmp_path / "tables"
    (source / "part").mkdir(parents=True)
    frame = pandas.DataFrame({"a": range(1000), "b": [f"row {n}" for n in range(1000)]})
    frame.to_csv(source / "a.csv", index=False)
    for number in range(3):
        frame.to_parquet(source / "part" / f"{number}.parquet")
    root = f"fanstore://{pack(source)}!"
    assert pandas.read_csv(f"{root}/a.csv").equals(frame)
    assert pandas.read_parquet(f"{root}/part/0.parquet").equals(frame)
    fs, path = fsspec.url_to_fs(f"{root}/part")
    assert arrow.dataset(path, filesystem=fs).to_table().num_rows == 3000


def test_dask_reads_tables_in_processes(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    source = tmp_path / "tables"
    write(source, {f"{n}.csv": TABLE for n in range(4)})
    with dask.config.set(scheduler="processes", num_workers=2):
        found = frames.read_csv(f"fanstore://{pack(source)}!/*.csv")
        assert int(found["value"].sum().compute()) == 4 * 6


def test_zarr_reads_arrays(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    source = tmp_path / "arrays"
    array = zarr.create_array(store=str(source), shape=(40, 30), chunks=(10, 10), dtype="i4")
    array[:] = 7
    found = zarr.open_array(f"fanstore://{pack(source)}!/", mode="r")
    assert (found[:] == 7).all() and found.shape == (40, 30)
