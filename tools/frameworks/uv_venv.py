# does: uv: a virtual environment and a cache in the mount, a wheel installed and run (Rust)
# needs: uv
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from case import run

WHEEL = "small-1-py3-none-any.whl"


def make(directory):
    with zipfile.ZipFile(directory / WHEEL, "w") as wheel:
        wheel.writestr("small.py", "WORD = 'installed'\n")
        about = "small-1.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "small.py,,\n")


def use(directory):
    os.environ.update(UV_CACHE_DIR=str(directory / "out" / "cache"), UV_OFFLINE="1")
    uv, place = Path(sys.executable).with_name("uv"), directory / "out" / "v"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, place], check=True)
    python = place / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, directory / WHEEL], check=True)
    subprocess.run([python, "-c", "import small; print(small.WORD)"], check=True)
    # Empties the cache, because its folders have random names.
    subprocess.run([uv, "cache", "clean", "-q"], check=True)


run(make, use)
