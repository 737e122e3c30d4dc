"""One row of csrc/preload/calls.def adds a call in all four ways: libc, syscall(2), system calls of
loaded code, --trap; and to the table of calls."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LETTERS = set("fdkplntayhwTMUibgSXFHIc!-")
ROW = 'FAN_SYSCALL(acct, REFUSED("EPERM, always"), "p", PLAIN, ALWAYS, acct(P(A)))\n'

ASKS = """
#include <stdio.h>
#include <sys/syscall.h>
#include "csrc/preload/syscall/syscall.h"
#include "csrc/trap/handlers.h"
int main(void)
{
    printf("%s %d %d\\n", fan_call_arguments(SYS_acct), fan_call_is_redirected(SYS_acct),
           fan_is_caught(SYS_acct));
}
"""


def tool(name: str) -> ModuleType:
    """A module of tools/, of this test's own."""
    spec = importlib.util.spec_from_file_location(f"calls_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answers(folder: Path) -> tuple[str, set[str]]:
    """What the sources in a folder say of acct(2), and the functions that syscall(2) calls."""
    native = tool("native")
    flags = [*native.COMMON_FLAGS, *native.PRELOAD_FLAGS, "-I", str(folder)]
    preload, trap = folder / "csrc" / "preload", folder / "csrc" / "trap"
    (folder / "asks.c").write_text(ASKS)
    sources = [folder / "asks.c", preload / "syscall" / "arguments.c", trap / "handlers.c"]
    whole = ["-Wl,--unresolved-symbols=ignore-all", "-o", folder / "asks"]
    subprocess.run(["cc", *flags, *sources, *whole], check=True)
    made = folder / "syscall.o"
    subprocess.run(["cc", *flags, "-c", preload / "syscall" / "syscall.c", "-o", made], check=True)
    called = subprocess.run(["nm", "-u", made], check=True, capture_output=True, text=True).stdout
    said = subprocess.run([folder / "asks"], check=True, capture_output=True, text=True).stdout
    return said.strip(), set(called.split())


def test_one_row_adds_a_call_in_all_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("cc", "nm"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    table = tmp_path / "csrc" / "preload" / "calls.def"
    native, posix_table = tool("native"), tool("posix_table")
    monkeypatch.setattr(native, "CSRC", tmp_path / "csrc")

    said, called = answers(tmp_path)
    assert said == "0 0"
    assert "acct" not in called
    assert "acct" not in native.intercepted_names()

    text = table.read_text()
    first = text.index("\nFAN_") + 1
    table.write_text(text[:first] + ROW + "\n" + text[first:])
    said, called = answers(tmp_path)
    assert said == "p 1 1"
    assert "acct" in called
    assert "acct" in native.intercepted_names()
    assert "        acct;\n" in native.version_script_text()
    row = posix_table.Row(("acct",), "refused", "EPERM, always")
    assert row in list(posix_table.intercepted(table.read_text()))


def test_the_arguments_of_each_row_are_known_letters() -> None:
    posix_table = tool("posix_table")
    rows = [
        line.split('"')[1]
        for line in posix_table.CALLS.read_text().replace(",\n", ", ").splitlines()
        if line.startswith(("FAN_SYSCALL", "FAN_OLD", "FAN_KERNEL")) and '("' not in line
    ]
    assert len(rows) > 80
    assert all(len(row) <= 6 and set(row) <= LETTERS for row in rows)
