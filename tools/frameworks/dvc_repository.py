# does: init without git, add inputs, remove and check out again, status
# needs: dvc
import os
import subprocess
import sys
from pathlib import Path

from case import run


def make(directory):
    (directory / "data").mkdir()
    for n in range(5):
        (directory / "data" / f"{n}.txt").write_text(f"{n}\n" * 100)


def use(directory):
    os.environ.update(DVC_NO_ANALYTICS="1", DVC_SITE_CACHE_DIR=str(directory / "out" / "site"))
    program = Path(sys.executable).with_name("dvc")

    def dvc(*words):
        subprocess.run([program, *words], cwd=directory / "out" / "repo", check=True)

    (directory / "out" / "repo").mkdir()
    dvc("init", "-q", "--no-scm")
    subprocess.run(["cp", "-r", directory / "data", directory / "out" / "repo"], check=True)
    dvc("add", "-q", "data")
    subprocess.run(["rm", "-r", directory / "out" / "repo" / "data"], check=True)
    dvc("checkout", "-q")
    dvc("status")
    print(sorted(path.read_text()[0] for path in (directory / "out" / "repo" / "data").iterdir()))


run(make, use)
