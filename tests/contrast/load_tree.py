"""The tree of programs and libraries that clients/load_client.py loads.

It is built for one side; files that name it by its absolute path are rewritten for another, whose
path is as long.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

# library: (source, what it is linked with, further flags)
LEAF = "int leaf(void) { return 5; }"
USER = "int leaf(void); int user(void) { return 10 + leaf(); }"
TOP = "int user(void); int top(void) { return 100 + user(); }"
ABOUT = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
const char *about(void) { Dl_info i; dladdr((void *)about, &i); return i.dli_fname; }
int beside(char *to, int bytes) {
    char path[4096];
    strcpy(path, about());
    strcpy(strrchr(path, '/'), "/data.txt");
    FILE *f = fopen(path, "r");
    int n = f ? (int)fread(to, 1, bytes - 1, f) : 0;
    to[n] = 0;
    return f ? fclose(f) : -1;
}
"""
CALLER = r"""
#include <dlfcn.h>
void *call(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
"""
SPEAKS = r"""
#include <unistd.h>
static __attribute__((constructor)) void b(void) { write(1, "begins\n", 7); }
static __attribute__((destructor)) void e(void) { write(1, "ends\n", 5); }
int version(void) { return VERSION; }
"""
NEEDS = "int version(void); int needs(void) { return 10 + version(); }"
MAIN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int leaf(void);
int main(int count, char **argv) {
    char exe[4096];
    int n = readlink("/proc/self/exe", exe, sizeof(exe) - 1), extra = 0;
    exe[n > 0 ? n : 0] = 0;
    const char *path = getenv("LD_LIBRARY_PATH");
    for (char **e = environ; *e; e++)
        extra += strncmp(*e, "FANSTORE_LD", 11) == 0 || strncmp(*e, "FANSTORE_NO", 11) == 0;
    printf("%d %s %s %s %d\n", leaf(), exe, argv[0], path ? path : "-", extra);
    printf("late: %s\n", dlopen("liblate.so", RTLD_NOW) ? "loaded" : dlerror());
    return count > 1 && access(argv[1], F_OK) != 0;
}
"""


def _compile(output: Path, source: str, *flags: str) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-w", "-D_GNU_SOURCE", "-x", "c", "-", "-o", str(output), *flags, "-ldl"]
    subprocess.run(command, input=source.encode(), check=True, timeout=60)


def _library(output: Path, source: str, *flags: str, soname: bool = True) -> None:
    named = [f"-Wl,-soname,{output.name}"] if soname else []
    _compile(output, source, "-shared", "-fPIC", *named, *flags)


def _with(directory: Path, *names: str) -> list[str]:
    return [f"-L{directory}", *(f"-l{name}" for name in names)]


def _rpath(*directories: object, old: bool = False) -> list[str]:
    tags = "--disable-new-dtags" if old else "--enable-new-dtags"
    return [f"-Wl,{tags}", f"-Wl,-rpath,{':'.join(map(str, directories))}"]


def build_libraries(top: Path) -> None:
    """Libraries with what they need beside them, elsewhere, or named by absolute paths."""
    far, near = top / "far", top / "near"
    _library(far / "libleaf.so", LEAF)
    _library(near / "libuser.so", USER, *_with(far, "leaf"), *_rpath("$ORIGIN/../far"))
    _library(near / "libtop.so", TOP, *_with(near, "user"), *_rpath("$ORIGIN"))
    absolute = top / "absolute"
    _library(absolute / "one" / "libone.so", USER, *_with(far, "leaf"), *_rpath(far))
    (absolute / "two").mkdir()
    _library(absolute / "two" / "libtwo.so", TOP, *_with(absolute / "one", "one"),
             *_rpath("/nowhere", absolute / "one"), soname=False)  # fmt: skip
    _library(top / "lost" / "liblost.so", USER, *_with(far, "leaf"), *_rpath("$ORIGIN"))
    _library(top / "about" / "libabout.so", ABOUT)
    (top / "about" / "data.txt").write_text("beside\n")
    _library(top / "caller" / "libcaller.so", CALLER, *_rpath("$ORIGIN/inner"))
    _library(top / "caller" / "libold.so", CALLER, *_rpath("$ORIGIN/../far", old=True))
    _library(top / "caller" / "inner" / "libinner.so", LEAF)
    _library(far / "liblate.so", USER, *_with(far, "leaf"), *_rpath("$ORIGIN"))
    for version in (1, 2):
        _library(top / f"v{version}" / "libspeaks.so", SPEAKS, f"-DVERSION={version}")
    _library(top / "v2" / "inner" / "libneeds.so", NEEDS, *_with(top / "v2", "speaks"),
             *_rpath("$ORIGIN/.."))  # fmt: skip
    os.symlink("../v2/inner", top / "v1" / "inner")


def build_programs(top: Path) -> None:
    """Programs that find a library by $ORIGIN, by an absolute path, or not by themselves."""
    far, programs = top / "far", top / "bin"
    leaf = _with(far, "leaf")
    _compile(programs / "origin", MAIN, *leaf, *_rpath("$ORIGIN/../far"))
    _compile(programs / "absolute", MAIN, *leaf, *_rpath(far))
    _compile(programs / "without", MAIN, *leaf)
    nowhere = [f"/nowhere/{i:03}-{'x' * 60}" for i in range(100)]
    for name, old in (("padded", False), ("padded_old", True)):
        _compile(programs / name, MAIN, *leaf, *_rpath(*nowhere, far, old=old))
    script = programs / "script"
    script.write_text(f"#!{programs / 'origin'} {top / 'bin'}\n")
    script.chmod(0o755)


def build_odd(top: Path) -> None:
    """What does not load, links, and a Python package with an extension module."""
    bad = top / "bad"
    bad.mkdir()
    whole = (top / "far" / "libleaf.so").read_bytes()
    (bad / "text.so").write_text("not a library, and longer than the header of one is" * 4)
    (bad / "empty.so").touch()
    (bad / "cut.so").write_bytes(whole[:100])
    (bad / "closed.so").write_bytes(whole)
    if os.getuid() == 0:  # nobody else packs it
        (bad / "closed.so").chmod(0)
    (bad / "directory.so").mkdir()
    os.symlink("loop.so", bad / "loop.so")
    links = top / "links"
    links.mkdir()
    os.symlink("../near/libtop.so", links / "libtop.so")
    os.symlink("near", top / "linked")
    venv = top / "venv" / "bin"
    venv.mkdir(parents=True)
    found = Path(sysconfig.get_paths()["stdlib"]) / "lib-dynload"
    (top / "packages").mkdir()
    for module in sorted(found.glob("_lsprof.*.so")):
        shutil.copy(module, top / "packages")


def build_load_tree(top: Path) -> None:
    """All of it, at its final path."""
    top.mkdir()
    build_libraries(top)
    build_programs(top)
    build_odd(top)


def rewrite_tree(source: Path, target: Path, path: Path) -> None:
    """A copy of `source` at `target` whose files name themselves by `path`, which is as long."""
    before, after = os.fsencode(source), os.fsencode(path)
    assert len(before) == len(after)
    shutil.copytree(source, target, symlinks=True)
    for file in target.rglob("*"):
        if file.is_file() and not file.is_symlink() and os.access(file, os.R_OK):
            mode = file.stat().st_mode
            content = file.read_bytes()
            if before in content:
                file.chmod(0o700)
                file.write_bytes(content.replace(before, after))
                file.chmod(mode & 0o7777)
