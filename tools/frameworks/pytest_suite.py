# does: tests of the mount run there, with its cache and temporary files among the outputs
# needs: pytest
import subprocess
import sys

from case import run


def make(directory):
    (directory / "test_small.py").write_text(
        "def test_small(tmp_path):\n    assert tmp_path.exists()\n"
    )


def use(directory):
    tests = [f"--basetemp={directory}/out/t", "-o", f"cache_dir={directory}/out/cache", directory]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], stdout=subprocess.PIPE)
    print(done.returncode, done.stdout.decode().split(" in ")[0])


run(make, use)
