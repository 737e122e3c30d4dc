"""The preload library is also right when it is compiled with the headers of an old C library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Headers of glibc 2.32 and older are so.
OLD_STAT_H = """
#include_next <sys/stat.h>
#ifdef __USE_EXTERN_INLINES
extern int __xstat(int version, const char *path, struct stat *st);
extern __inline __attribute__((__gnu_inline__)) int stat(const char *path, struct stat *st)
{
    return __xstat(1, path, st);
}
#endif
"""


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
def test_forms_of_stat_do_not_call_themselves(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "stat.h").write_text(OLD_STAT_H)
    made = tmp_path / "forms.o"
    source = ROOT / "csrc" / "preload" / "syscall" / "forms.c"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-U_FORTIFY_SOURCE", "-w", f"-I{tmp_path}"]
    subprocess.run(["cc", *flags, "-c", source, "-o", made], check=True)
    undefined = subprocess.run(["nm", "-u", made], capture_output=True, text=True, check=True)
    assert {"stat", "lstat", "fstat"} <= set(undefined.stdout.split())
