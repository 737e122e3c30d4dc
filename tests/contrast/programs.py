"""The clients: which cases each source file holds, and how it is compiled."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from arena import SELF

CLIENTS = Path(__file__).parent / "clients"
COMPILED = Path(__file__).resolve().parents[2] / "build" / "contrast"
CASE = re.compile(r"^CASE\((\w+)\)", re.MULTILINE)

# Where FanStore differs, and says so in docs/limitations.md. Strict: a difference that goes away
# is to be taken out of here.
DIFFERENT = {
    "wordexp_of_a_glob": "wordexp of libc expands no pattern in a mount: it has a glob of its own",
    "flock_excludes_another_open": "advisory locks on inputs are granted to everybody",
}


def parameters(cases: list[tuple[str, str]]) -> list[object]:
    """The cases for parametrize; those known to differ are expected to fail."""
    return [
        pytest.param(case, marks=pytest.mark.xfail(reason=DIFFERENT[case[1]], strict=not SELF))
        if case[1] in DIFFERENT
        else case
        for case in cases
    ]


def python_cases(source: str) -> list[tuple[str, str]]:
    """(source, case) of each function case_* in a Python client."""
    module = ast.parse((CLIENTS / source).read_text())
    names = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
    return [(source, name.removeprefix("case_")) for name in names if name.startswith("case_")]


def compiled_cases(source: str) -> list[tuple[str, str]]:
    """(source, case) of each CASE(...) in a C or C++ client."""
    return [(source, name) for name in CASE.findall((CLIENTS / source).read_text())]


def compiled(command: list[str]) -> Path:
    """What a command compiles, from `build/` where an earlier run did the same."""
    output = COMPILED / key_of(command)
    if not output.exists():
        COMPILED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=COMPILED) as folder:
            made = Path(folder) / "program"
            subprocess.run([*command, "-o", str(made)], check=True, timeout=120)
            made.rename(output)
    return output


def key_of(command: list[str]) -> str:
    """Tells apart what commands compile: by their words, compiler, source, and all headers."""
    compiler = os.stat(str(shutil.which(command[0])))
    digest = hashlib.sha256(repr((command, compiler.st_size, compiler.st_mtime_ns)).encode())
    source = next(Path(word) for word in command if word.startswith(str(CLIENTS)))
    for path in (source, *sorted(CLIENTS.glob("*.h"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


class Programs:
    """Compiles a client when a case first needs it, unless an earlier run compiled the same."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory

    def path(self, source: str, *flags: str) -> str:
        """The program compiled from `source` with extra `flags`."""
        compiler = "g++" if source.endswith(".cc") else "cc"
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        label = re.sub(r"\W", "_", source + "".join(flags))
        output = self.directory / label
        if not output.exists():
            command = [compiler, "-D_GNU_SOURCE", "-w", *(flags or ("-O1",)), str(CLIENTS / source)]
            shutil.copy(compiled([*command, "-lpthread", "-ldl"]), output)
        return str(output)

    def others(self) -> None:
        """Compiles the clients in other languages whose compilers are here, into the directory."""
        for source, compiler in (
            ("lang_walk.rs", ("rustc", "-o", str(self.directory / "lang_walk"))),
            ("Walk.java", ("javac", "-d", str(self.directory))),
        ):
            if shutil.which(compiler[0]) is not None:
                subprocess.run([*compiler, str(CLIENTS / source)], check=True, timeout=120)

    def library(self, source: str) -> str:
        """The directory in which a shared library compiled from `source` lies."""
        output = self.directory / source.replace(".c", ".so")
        if not output.exists():
            command = ["cc", "-w", "-O1", "-shared", "-fPIC", "-o", str(output)]
            subprocess.run([*command, str(CLIENTS / source), "-ldl"], check=True, timeout=120)
        return str(self.directory)
