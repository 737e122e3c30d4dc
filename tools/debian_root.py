"""Makes folders with packages of Debian, of another release or processor, to compile programs
against or to run them in. They are not installed in this machine's apt and dpkg."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIMIT_S = 600
NEEDED = ("apt-get", "dpkg")


def sources(release: str) -> str:
    """Returns a list of sources for apt: this machine's archive, with another release."""
    ask = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    found = subprocess.run(ask, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if not found:
        raise SystemExit("debian_root: apt knows no archive here")
    return f"deb [signed-by={KEYS}] {found[0]} {release} main\n"


def stay_inside(root: Path) -> None:
    """Makes links to absolute paths lead to the same paths within `root`."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in folders + files):
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = os.path.relpath(f"{root}{os.readlink(path)}", folder)
                path.unlink()
                path.symlink_to(target)


def unpack(root: Path, release: str, architecture: str, packages: Sequence[str]) -> Path:
    """Unpacks the packages, and those that they depend on, in `root`, unless it exists. Returns
    `root`."""
    note, made_of = root / "made-of", " ".join((release, architecture, *packages))
    if note.exists() and note.read_text() == made_of:
        return root
    shutil.rmtree(root, ignore_errors=True)
    state = root.with_name(f"{root.name}.apt")
    shutil.rmtree(state, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True)
    (state / "sources.list").write_text(sources(release))
    settings = {
        "Dir::State": state, "Dir::State::status": "/dev/null", "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "sources.list", "Dir::Etc::sourceparts": "-",
        "APT::Architecture": architecture, "APT::Architectures::": architecture,
        "APT::Sandbox::User": "",
    }  # fmt: skip
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    install = ["install", "--yes", "--no-install-recommends", "--download-only", *packages]
    for command in (["update"], install):
        subprocess.run(["apt-get", "-qq", *options, *command], check=True, timeout=LIMIT_S)
    fresh = root.with_name(f"{root.name}.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, fresh], check=True)
    stay_inside(fresh)
    shutil.rmtree(state)
    (fresh / note.name).write_text(made_of)
    fresh.rename(root)
    return root
