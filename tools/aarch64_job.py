"""Runs a job as on a machine with aarch64: packs a tree, starts a node daemon, and runs programs
that read everything and write; compares the results with the plain files.

    python tools/aarch64_job.py

qemu-user leaves programs that a program starts to this machine's kernel. So the kernel is told, in
a user namespace of its own, to run aarch64 programs with the emulator (binfmt_misc, for each
namespace since Linux 6.7). The root is Debian's for arm64. It needs neither root privileges nor a
change of the machine. If the machine does not allow it, the program says so; that is no failure."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import requires
from pathlib import Path

import aarch64
import native

SITE = aarch64.OUT / "site"
LIMIT_S = 300
_REGISTER = "/proc/sys/fs/binfmt_misc/register"
_UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]
_MOUNT = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc"
# The first bytes of an aarch64 ELF file (64 bits, little-endian, EXEC or DYN, EM_AARCH64), and a
# mask of the bytes that count: elf(5).
_MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
_MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
# $1: root, $2: emulator, $3: site, $4: work; then the command. F opens the emulator now, outside of
# the root, because it is a program of this machine; in the root it finds its libraries at their
# usual paths.
_ENTER = rf"""
set -e
root=$1 emulator=$2 site=$3 work=$4; shift 4
{_MOUNT}
printf '%s' ':aarch64:M::{_MAGIC}:{_MASK}:'"$emulator"':F' >{_REGISTER}
for name in proc dev sys; do mkdir -p "$root/$name"; mount --rbind "/$name" "$root/$name"; done
for name in lib64 lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu; do
    mkdir -p "$root/$name"; mount --bind "/$name" "$root/$name"
done
mkdir -p "$root/site" "$root/work" "$root/tmp"
mount --bind "$site" "$root/site"
mount --bind "$work" "$root/work"
mount -t tmpfs none "$root/tmp"
exec chroot "$root" /usr/bin/env -i -C /work PATH=/usr/bin:/bin PYTHONPATH=/site HOME=/work \
    USER=nobody LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$@"
"""
_PROGRAM = r"""
import hashlib, os, platform
assert platform.machine() == "aarch64"
root = os.environ["FANSTORE_MOUNT_PREFIX"]
paths = sorted(os.path.join(at, name) for at, _, names in os.walk(root) for name in names)
with open(os.path.join(root, "said"), "w", errors="surrogateescape") as said:
    for path in paths:
        with open(path, "rb") as stream:
            digest = hashlib.sha256(stream.read()).hexdigest()
        print(digest, repr(os.path.relpath(path, root)), file=said)
"""


def missing() -> str:
    """Returns why such a job cannot run here; "" if it can."""
    if shutil.which("unshare") is None:
        return "unshare not found (on Debian: util-linux)"
    tried = subprocess.run([*_UNSHARE, "sh", "-c", _MOUNT], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "no binfmt_misc of one's own (Linux 6.7 and newer)"


def install(site: Path, *what: str | Path) -> None:
    """Installs wheels for aarch64, and those that they depend on, into the folder `site`."""
    tags = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 28)]
    tags += ["--python-version=311", "--only-binary=:all:"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *tags, "--target", site, *what], check=True)


def make_site() -> None:
    """Makes SITE: this checkout with its libraries for aarch64, and everything that it depends
    on."""
    if not SITE.exists():
        needed = [each for each in requires("fanstore-fs") or () if "extra ==" not in each]
        install(SITE, *needed)
    package = SITE / "fanstore"
    shutil.rmtree(package, ignore_errors=True)
    own = shutil.ignore_patterns("*.so", "*.stamp", "fanstore-*", "__pycache__")
    shutil.copytree(native.ROOT / "fanstore", package, ignore=own)
    shutil.copytree(aarch64.LIBRARIES, package / "_native", dirs_exist_ok=True)


def in_machine(site: Path, work: Path, *command: str) -> str:
    """Runs a command in the root, with `work` at /work. Returns its stdout. Raises SystemExit with
    its stderr if it fails."""
    emulator = shutil.which(aarch64.QEMU) or aarch64.QEMU
    enter = [*_UNSHARE, "sh", "-c", _ENTER, "sh", aarch64.ROOT, emulator, site, work, *command]
    done = subprocess.run(enter, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"aarch64: {command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_tree(tree: Path) -> str:
    """Makes files to pack. Returns the output that the program must have for them."""
    shutil.copytree(native.ROOT / "docs", tree)
    (tree / "empty").touch()
    (tree / "a name\nof two lines").write_bytes(b"\0" * 4097)
    (tree / "large").write_bytes(random.Random(1).randbytes(5_000_001))
    paths = sorted(str(path) for path in tree.rglob("*") if path.is_file())
    digests = ((hashlib.sha256(Path(path).read_bytes()).hexdigest(), path) for path in paths)
    return "".join(f"{digest} {path[len(str(tree)) + 1 :]!r}\n" for digest, path in digests)


def run_job(site: Path) -> None:
    """Packs a tree, and runs programs that read everything in its mount and write. Raises
    SystemExit if anything goes wrong."""
    with tempfile.TemporaryDirectory(prefix="fanstore-aarch64-") as scratch:
        work = Path(scratch)
        expected = make_tree(work / "plain")
        (work / "read.py").write_text(_PROGRAM)
        fanstore = ("python3", "-m", "fanstore")
        for codec in ("store", "lz4"):
            in_machine(site, work, *fanstore, "prepare", "--codec", codec, "plain", codec)
            in_machine(site, work, *fanstore, "verify", codec)
            run = ("run", "--dataset", codec, "--output-dir", f"out-{codec}", "--mount", "/work/m")
            script = 'cd "$FANSTORE_MOUNT_PREFIX" && ls -R && python3 /work/read.py'
            listed = in_machine(site, work, *fanstore, *run, "--", "sh", "-c", script)
            if (work / f"out-{codec}" / "said").read_text(errors="surrogateescape") != expected:
                raise SystemExit(f"aarch64: a job with {codec} read something else")
            if listed != in_machine(site, work, "sh", "-c", "cd plain && ls -R"):
                raise SystemExit(f"aarch64: a job with {codec} listed something else")
            print(f"aarch64: a job with {codec} read {expected.count(chr(10))} files, all right")


def main() -> int:
    problem = aarch64.missing() or missing()
    if problem:
        print(f"aarch64: no job: {problem}")
        return 0
    aarch64.unpack_root()
    make_site()
    run_job(SITE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
