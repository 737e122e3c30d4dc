"""The MPI transport: ranks under mpiexec that drive its functions, and its build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mpiexec import IS_OPEN_MPI, KEEP, MPIEXEC, needs_ranks
from soak import sampled

from fanstore import transport
from fanstore.errors import FanstoreError
from fanstore.transport import build, describe

ROOT = Path(__file__).resolve().parents[2]
PEER = Path(__file__).resolve().parents[1] / "support" / "transport_peer.py"
LIMIT_S = 60

pytestmark = needs_ranks

# Over shared memory; over what MPI uses between nodes; the same, and TCP.
CARRIERS: dict[str, dict[str, str]] = {
    "one-node": {},
    "network": {"MPIR_CVAR_NOLOCAL": "1"},
    "tcp": {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"},
}
RANKS_OF = {
    "sizes": 3, "outstanding": 3, "mail": 3, "crooked-mail": 3, "notices": 3, "refusals": 2,
    "rings": 2, "strangers": 2, "limits": 2, "ill-formed": 2, "crooked-answers": 2,
    "stopped-between": 3, "stopped-in-reply": 3,
}  # fmt: skip
RUNS = [(program, carrier) for program in RANKS_OF for carrier in CARRIERS]
# Over TCP what moves much, all else on one node. `make soak` has those that are like others, too.
KILLED = ("killed-between", "killed-in-reply", "killed-sending")
OVER_TCP = ("sizes",)
LIKE_OTHERS = ("outstanding", "mail", "refusals", "limits", "ill-formed", "stopped-between")
QUICK_RUNS = [
    (each, "tcp" if each in OVER_TCP else "one-node")
    for each in RANKS_OF
    if each not in LIKE_OTHERS
]


def run_ranks(
    folder: Path, program: str, ranks: int, carrier: dict[str, str], *flags: str
) -> list[str]:
    """Runs a program of transport_peer.py; what each rank wrote."""
    assert MPIEXEC is not None
    command = [MPIEXEC, *flags, "-n", str(ranks), sys.executable, str(PEER), program, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **carrier}
    subprocess.run(command, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    return [(folder / str(rank)).read_text() for rank in range(ranks)]


def is_whole(output: str) -> bool:
    return output.splitlines()[-1:] == ["ok"]


@pytest.mark.parametrize("run", sampled(RUNS, QUICK_RUNS), ids="-".join)
def test_messages(tmp_path: Path, run: tuple[str, str]) -> None:
    program, carrier = run
    for output in run_ranks(tmp_path, program, RANKS_OF[program], CARRIERS[carrier]):
        assert is_whole(output), output


@pytest.mark.parametrize(
    "tls", ["", pytest.param("tcp,self", marks=pytest.mark.soak)], ids=["network", "tcp"]
)
@pytest.mark.parametrize("program", sampled(KILLED, ["killed-in-reply"]))
def test_a_killed_rank(tmp_path: Path, program: str, tls: str) -> None:
    # Of Hydra one proxy a rank, as on several nodes: a proxy that sees one of its ranks die may
    # kill its others, whatever -disable-auto-cleanup says.
    nodes = () if IS_OPEN_MPI else ("-launcher", "fork", "-hosts", "n0,n1,n2", "-ppn", "1")
    outputs = run_ranks(tmp_path, program, 3, {"UCX_TLS": tls} if tls else {}, *nodes, *KEEP)
    assert "ok" not in outputs[1].split()
    assert is_whole(outputs[0]), outputs[0]
    assert is_whole(outputs[2]), outputs[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fanstore"


# A compiler that leaves something, for what is not about what it makes.
QUICK = 'while [ "$#" -gt 0 ] && [ "$1" != -o ]; do shift; done; [ -z "$2" ] || echo made > "$2"'


@pytest.fixture
def quick_mpicc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that leaves something, for what is not about what it makes."""
    monkeypatch.setenv("MPICC", script(tmp_path / "mpicc", QUICK))


@pytest.mark.soak
def test_builders_at_once_leave_one_whole_library(cache: Path) -> None:
    code = (
        "import ctypes; from fanstore.transport.build import built_library\n"
        "with built_library('v') as path: ctypes.CDLL(str(path)).fan_transport_open"
    )
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(
            lambda _: subprocess.run([sys.executable, "-c", code], timeout=LIMIT_S), range(2)
        )
        assert [run.returncode for run in runs] == [0] * 2
    assert len(list(cache.glob("lib*"))) == 1


@pytest.mark.usefixtures("quick_mpicc")
def test_a_built_library_is_used_again_until_mpi_is_another(cache: Path) -> None:
    with build.built_library("one") as path:
        made_ns = path.stat().st_mtime_ns
        assert path.parent == cache
    with build.built_library("one") as path:
        assert path.stat().st_mtime_ns == made_ns
    with build.built_library("two") as other:
        assert other.name != path.name


@pytest.mark.usefixtures("quick_mpicc")
def test_a_cache_that_others_may_write_is_not_used(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with build.built_library("one") as path:
        assert path.exists() and path.parent != cache
    assert not path.exists() and list(cache.iterdir()) == []


def test_a_missing_mpicc_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MPICC", str(tmp_path / "nothing"))
    with pytest.raises(FanstoreError, match=f"MPICC names {tmp_path}/nothing"):
        build.find_mpicc()
    monkeypatch.delenv("MPICC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(FanstoreError, match=r"no mpicc .* set MPICC, or pip install mpich"):
        build.find_mpicc()
    problem = describe()["problem"]
    assert problem is not None and "mpicc" in problem


def test_an_mpi_of_this_python_is_built_for_with_its_own_mpicc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MPICC", raising=False)
    site, own = tmp_path / "site", tmp_path / "own"
    for folder in (site, own):
        folder.mkdir()
        script(folder / "mpicc", "true")
    monkeypatch.setenv("PATH", str(site))
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    assert build.find_mpicc(own=True) == [str(own / "mpicc")]
    assert build.find_mpicc() == [str(site / "mpicc")]
    (site / "mpicc").unlink()
    assert build.find_mpicc() == [str(own / "mpicc")]
    (own / "mpicc").unlink()
    script(site / "mpicc", "true")
    assert build.find_mpicc(own=True) == [str(site / "mpicc")]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo 'cc: not found' >&2; exit 127", r"no C compiler \(cc: not found\); install gcc"),
        ("echo 'a.c:1: error: bad' >&2; echo done >&2; exit 1", "cannot build .*error: bad"),
    ],
)
def test_a_compiler_that_fails_is_told_in_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("MPICC", script(tmp_path / "mpicc", text))
    with pytest.raises(FanstoreError, match=message) as caught, build.built_library("one"):
        pass
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_another_mpi_is_refused_with_both_names(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.c"
    other.write_text('const char *fan_transport_library_version(void) { return "Other MPI 9"; }\n')
    text = f'while [ "$1" != -o ]; do shift; done; exec cc -shared -fPIC -o "$2" {other}'
    monkeypatch.setenv("MPICC", script(tmp_path / "mpicc", text))
    for output in run_ranks(tmp_path, "build", 2, {}):
        assert "FanstoreError: rank 0: mpi4py runs on " in output
        assert "the transport was built with Other MPI 9; set MPICC" in output


def test_sources_compile_without_a_warning(tmp_path: Path) -> None:
    for source in sorted((ROOT / "csrc" / "transport").glob("*.c")):
        flags = [*build._FLAGS, "-Werror", "-Wstrict-prototypes", "-Wmissing-prototypes"]
        flags = [flag for flag in flags if flag != "-shared" and not flag.startswith("-Wl,")]
        output = str(tmp_path / "out.o")
        mpicc = build.quotable(build.find_mpicc(), tmp_path)
        command = [*mpicc, *flags, "-c", str(source), "-o", output]
        assert subprocess.run(command, timeout=LIMIT_S).returncode == 0


@pytest.mark.soak
def test_an_mpicc_at_a_path_with_a_space(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPICH's finds its headers from its own path, and does not quote what it finds."""
    folder = tmp_path / "a dir" / "bin"
    folder.mkdir(parents=True)
    prefix = Path(build.find_mpicc(own=True)[0]).resolve().parent.parent
    if not (prefix / "include" / "mpi.h").exists():
        pytest.skip("this MPI has its headers elsewhere")
    for name in ("include", "lib"):
        (folder.parent / name).symlink_to(prefix / name)
    text = (
        'prefix=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)\n'
        'exec cc "$@" -I$prefix/include -L$prefix/lib -Wl,-rpath,$prefix/lib -lmpi'
    )
    monkeypatch.setenv("MPICC", f"'{script(folder / 'mpicc', text)}'")
    for place in (cache, tmp_path / "another one" / "fanstore"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place.parent))
        with build.built_library("one") as path:
            assert path.exists()
            assert (path.parent == cache) == (place == cache)


@pytest.mark.soak
def test_describe_tells_mpi_and_the_library_once_built(cache: Path, tmp_path: Path) -> None:
    told = describe()
    assert told["problem"] is None and told["library"] is None
    assert told["mpicc"] is not None and told["library_version"] is not None
    assert all(is_whole(output) for output in run_ranks(tmp_path, "build", 2, {}))
    library = describe()["library"]
    assert library is not None and Path(library).exists()


def test_describe_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of that name in the current directory is not the installed package."""
    (tmp_path / "fanstore").mkdir()
    (tmp_path / "fanstore" / "__init__.py").write_text("raise ImportError('not built')")
    monkeypatch.chdir(tmp_path)
    assert describe()["problem"] is None


VERSIONS = {
    "MPICH Version:\t5.0.2\nMPICH Release date: today": "mpich",
    "Intel(R) MPI Library 2021.13 for Linux* OS": "mpich",
    "Open MPI v5.0.8, package: Open MPI conda": "openmpi",
    "An MPI of its own 1.0": None,
}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.split()[0])
def test_what_a_wheel_brings_is_chosen_by_the_abi(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPICC", raising=False)
    monkeypatch.setattr(build, "preload_path", lambda: tmp_path / "libfanstore_preload.so")
    assert build.brought_library(version) is None
    for abi in ("mpich", "openmpi"):
        (tmp_path / build.brought_name(abi)).touch()
    abi = VERSIONS[version]
    assert build.brought_library(version) == (abi and tmp_path / build.brought_name(abi))
    monkeypatch.setenv("MPICC", "mpicc")
    assert build.brought_library(version) is None


@pytest.mark.usefixtures("quick_mpicc")
def test_what_does_not_load_is_built(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site's MPI may have the name of an ABI and another libmpi."""
    brought, loaded = tmp_path / build.brought_name("mpich"), []

    def load(version: str, path: Path) -> str:
        if path == brought:
            raise FanstoreError("libmpi.so.12: cannot open shared object file")
        loaded.append(path)
        return "built"

    monkeypatch.setattr(transport, "brought_library", lambda version: brought)
    monkeypatch.setattr(transport, "load_library", load)
    assert transport.library_for("MPICH") == "built"
    assert [path.parent for path in loaded] == [cache]


@pytest.mark.soak
def test_a_wheel_brings_the_sources(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The wheel's own libraries take long to build and are not looked at: those built here are used.
    monkeypatch.setenv("CC", script(tmp_path / "cc", QUICK))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel"]
    source = tmp_path / "source"
    kept = ("csrc", "fanstore", "tools", "setup.py", "pyproject.toml", "README.md", "MANIFEST.in")
    source.mkdir()
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("*.so"))
        else:
            shutil.copy(ROOT / name, source / name)
    options = ["--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*pip, *options, str(source)], check=True, timeout=300)
    installed = tmp_path / "installed"
    (made,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(installed)
    shutil.rmtree(source)
    native = Path("fanstore", "_native")
    shutil.copytree(ROOT / native, installed / native, dirs_exist_ok=True)
    code = (
        "import fanstore.transport.build as b\n"
        "with b.built_library('v') as path: print(b.source_folder(), path.exists())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    expected = installed / "fanstore" / "transport" / "csrc"
    assert done.stdout.split() == [str(expected), "True"], done.stderr
