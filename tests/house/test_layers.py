"""The layer check finds no breach here, and finds one where there is one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools" / "check_layers.py")
assert _spec is not None and _spec.loader is not None
check_layers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_layers)
rooms = check_layers.rooms


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_repository_obeys() -> None:
    check = [sys.executable, str(ROOT / "tools" / "check_layers.py")]
    checked = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert (checked.stdout, checked.returncode) == ("layers: no breach\n", 0)


def test_no_two_rooms_use_each_other() -> None:
    for table, sep in ((rooms.C_ROOMS, "/"), (rooms.PYTHON_ROOMS, ".")):
        mutual = [
            (room, other)
            for room in table
            for other in table
            if room < other
            and check_layers.may_use(room, other, table, sep)
            and check_layers.may_use(other, room, table, sep)
        ]
        assert mutual == []


def test_client_including_node_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "node" / "segment.h", "")
    write(tmp_path / "client" / "files" / "read.c", '#include "../../node/segment.h"\n')
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "client/files may not include from node" in breach


def test_including_from_a_higher_room_of_the_same_folder_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "client" / "code" / "elf.h", "")
    write(tmp_path / "client" / "files" / "store.h", '#include "../code/elf.h"\n')
    write(tmp_path / "client" / "code" / "program.c", '#include "../files/store.h"\n')
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "client/files may not include from client/code" in breach


def test_restricted_system_header_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "client" / "files" / "read.c", "#include <stdio.h>\n#include <mpi.h>\n")
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "<mpi.h>" in breach


def test_unknown_folder_is_a_breach(tmp_path: Path) -> None:
    write(tmp_path / "misc" / "x.c", "")
    (breach,) = check_layers.c_breaches(tmp_path)
    assert "has no room" in breach


def build(root: Path, **sources: str) -> None:
    """Compiles each source, `pack__content` as csrc/pack/content.c, beside build/objects."""
    for name, text in sources.items():
        file = Path(name.replace("__", "/"))
        source = root / "csrc" / file.with_suffix(".c")
        made = root / "build" / "objects" / "preload" / file.with_suffix(".o")
        write(source, text)
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-fno-builtin", "-c", str(source), "-o", str(made)], check=True)


def test_a_call_into_a_higher_room_is_a_breach_that_names_symbol_and_files(tmp_path: Path) -> None:
    build(
        tmp_path,
        client__files__store="void fan_load(void); void fan_store(void) { fan_load(); }",
        client__code__elf="void fan_load(void) {}",
    )
    (breach,) = check_layers.built_breaches(tmp_path)
    assert breach.endswith(
        "csrc/client/files/store.c: client/files may not call fan_load in client/code "
        "(client/code/elf.c)"
    )


def test_an_intercepted_name_of_libc_is_a_call_into_preload(tmp_path: Path) -> None:
    build(
        tmp_path,
        pack__content="int open(const char *p, int f, ...); int f(void) { return open(0, 0); }",
        preload__wrap_open="int open(const char *path, int flags, ...) { return -1; }",
    )
    (breach,) = check_layers.built_breaches(tmp_path)
    assert "pack may not call open in preload" in breach


def test_a_circle_across_rooms_is_a_breach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rooms.C_ROOMS, "prepare", {"node"})
    monkeypatch.setitem(rooms.C_ROOMS, "node", {"prepare"})
    build(
        tmp_path,
        node__a="void b(void); void a(void) { b(); }",
        prepare__b="void a(void); void b(void) { a(); }",
    )
    (breach,) = check_layers.built_breaches(tmp_path)
    assert breach == "a circle of files that use each other: node/a, prepare/b"


def test_two_files_of_a_room_may_call_each_other_and_three_may_not(tmp_path: Path) -> None:
    build(
        tmp_path,
        node__a="void b(void); void a(void) { b(); }",
        node__b="void a(void); void b(void) { a(); }",
    )
    assert list(check_layers.built_breaches(tmp_path)) == []
    build(
        tmp_path,
        node__b="void c(void); void b(void) { c(); }",
        node__c="void a(void); void c(void) { a(); }",
    )
    (breach,) = check_layers.built_breaches(tmp_path)
    assert breach == "a circle of files that use each other: node/a, node/b, node/c"


def test_objects_that_are_not_of_these_sources_are_a_breach(tmp_path: Path) -> None:
    build(tmp_path, node__a="void a(void) {}")
    (tmp_path / "csrc" / "node" / "a.c").rename(tmp_path / "csrc" / "node" / "b.c")
    missing, stale = check_layers.built_breaches(tmp_path)
    assert "csrc/node/b.c" in missing and "build first" in missing
    assert "node/a.o" in stale and "build again" in stale


def python_tree(root: Path) -> Path:
    for unit in ("prepare", "job", "cli", "_native", "outputs", "outputs/model", "outputs/ranks"):
        write(root / unit / "__init__.py", "")
    write(root / "job" / "daemon.py", "")
    return root


def test_import_upwards_is_a_breach_in_every_spelling(tmp_path: Path) -> None:
    tree = python_tree(tmp_path / "fanstore")
    for line in (
        "import fanstore.job.daemon",
        "from fanstore.job import daemon",
        "from fanstore import job",
        "from ..job import daemon",
        "from .. import job",
        "def f():\n    from fanstore.job import daemon",
    ):
        write(tree / "prepare" / "scan.py", line + "\n")
        (breach,) = check_layers.python_breaches(tree)
        assert "prepare may not import fanstore.job" in breach, line


def test_import_from_a_higher_room_of_the_same_package_is_a_breach(tmp_path: Path) -> None:
    tree = python_tree(tmp_path / "fanstore")
    write(tree / "outputs" / "model" / "wire.py", "")
    write(tree / "outputs" / "ranks" / "home.py", "from ..model.wire import Frame\n")
    write(tree / "job" / "job.py", "from fanstore.outputs.ranks import home\n")
    assert list(check_layers.python_breaches(tree)) == []
    write(tree / "outputs" / "model" / "wire.py", "from ..ranks import home\n")
    breach, circle = check_layers.python_breaches(tree)
    assert "outputs.model may not import fanstore.outputs.ranks" in breach
    assert circle == "a circle of files that use each other: outputs.model.wire, outputs.ranks.home"


def test_three_modules_that_import_each_other_are_a_breach(tmp_path: Path) -> None:
    tree = python_tree(tmp_path / "fanstore")
    for module, other in (("a", "b"), ("b", "c"), ("c", "a")):
        write(tree / "job" / f"{module}.py", f"from fanstore.job import {other}\n")
    (breach,) = check_layers.python_breaches(tree)
    assert breach == "a circle of files that use each other: job.a, job.b, job.c"


def test_nothing_imports_cli_and_only_native_imports_cffi(tmp_path: Path) -> None:
    tree = python_tree(tmp_path / "fanstore")
    write(tree / "job" / "daemon.py", "import cffi\nfrom fanstore.cli import main\n")
    write(tree / "_native" / "__init__.py", "from cffi import FFI\n")
    write(tree / "prepare" / "scan.py", "from fanstore._native import lib\nfrom . import walk\n")
    assert len(list(check_layers.python_breaches(tree))) == 2
