# does: a virtual environment made in the mount, a wheel of the mount installed into it, run
# needs:
import subprocess
import venv
import zipfile

from case import run

WHEEL = "small-1-py3-none-any.whl"


def make(directory):
    with zipfile.ZipFile(directory / WHEEL, "w") as wheel:
        wheel.writestr("small.py", "WORD = 'installed'\n")
        wheel.writestr(
            "small-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n"
        )
        wheel.writestr(
            "small-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("small-1.dist-info/RECORD", "small.py,,\n")


def use(directory):
    venv.create(directory / "out" / "v", with_pip=True)
    python = directory / "out" / "v" / "bin" / "python"
    install = ["-m", "pip", "install", "-q", "--no-cache-dir", "--no-index", directory / WHEEL]
    subprocess.run([python, *install], check=True)
    subprocess.run([python, "-c", "import small; print(small.WORD)"], check=True)


run(make, use)
