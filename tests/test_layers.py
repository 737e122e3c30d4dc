"""The layer checker finds no breach here, and finds one where there is one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools" / "check_layers.py")
assert _spec is not None and _spec.loader is not None
check_layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_layers)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_repository_obeys() -> None:
    assert list(check_layers.c_breaches(ROOT / "csrc")) == []
    assert list(check_layers.python_breaches(ROOT / "fanstore")) == []


def test_client_including_node_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "node" / "segment.h", "")
    write(tmp_path / "client" / "read.c", '#include "../node/segment.h"\n')
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "client may not include from node" in breach


def test_restricted_system_header_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "client" / "read.c", "#include <stdio.h>\n#include <mpi.h>\n")
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "<mpi.h>" in breach


def test_unknown_folder_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "misc" / "x.c", "")
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "has no layer" in breach


def python_tree(root: Path) -> Path:
    for unit in ("prepare", "serve", "cli", "_native"):
        write(root / unit / "__init__.py", "")
    return root


def test_import_upwards_is_a_breach_in_every_spelling(tmp_path: Path) -> None:
    tree = python_tree(tmp_path / "fanstore")
    for line in (
        "import fanstore.serve.daemon",
        "from fanstore.serve import daemon",
        "from fanstore import serve",
        "from ..serve import daemon",
        "from .. import serve",
        "def f():\n    from fanstore.serve import daemon",
    ):
        write(tree / "prepare" / "scan.py", line + "\n")
        (breach,) = check_layers.python_breaches(tree)
        assert "prepare may not import fanstore.serve" in breach, line


def test_nothing_imports_cli_and_only_native_imports_cffi(tmp_path: Path) -> None:
    tree = python_tree(tmp_path / "fanstore")
    write(tree / "serve" / "daemon.py", "import cffi\nfrom fanstore.cli import main\n")
    write(tree / "_native" / "__init__.py", "from cffi import FFI\n")
    write(tree / "prepare" / "scan.py", "from fanstore._native import lib\nfrom . import walk\n")
    assert len(list(check_layers.python_breaches(tree))) == 2
