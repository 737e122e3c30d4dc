"""Loads code from a tree: one case a function, each in a process of its own.

    load_client.py ROOT OUTSIDE RECORD

ROOT holds the tree of load_tree.py, on a plain file system or in a mount; OUTSIDE, a directory on
none, has `side` libraries and programs that need ROOT's. RECORD gets a line of JSON for each case.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

ROOT, OUTSIDE = Path(sys.argv[1]), Path(sys.argv[2])
NOW, LAZY, NOLOAD = os.RTLD_NOW, os.RTLD_LAZY, os.RTLD_NOLOAD
own = ctypes.CDLL(None)
own.dlopen.restype = own.dlsym.restype = ctypes.c_void_p
own.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
own.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
own.dlclose.argtypes = [ctypes.c_void_p]
own.dlerror.restype = ctypes.c_char_p


def opened(path: object, mode: int = NOW) -> int | None:
    """dlopen(3)'s handle."""
    return own.dlopen(os.fsencode(str(path)), mode)


def said() -> str | None:
    """What dlerror(3) has to say."""
    text = own.dlerror()
    return None if text is None else os.fsdecode(text)


def called(handle: int | None, name: str) -> object:
    """What the library's function of no arguments returns, or the error."""
    if handle is None:
        return said()
    function = own.dlsym(handle, name.encode())
    return ctypes.CFUNCTYPE(ctypes.c_int)(function)()


def caller(path: Path) -> object:
    """A library's own dlopen."""
    found = ctypes.CDLL(str(path)).call
    found.restype, found.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    return lambda name: found(os.fsencode(str(name)))


def ran(*command: object, **more: object) -> None:
    """Runs a program and prints how it ended and what it said."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    print(done.returncode, done.stdout, done.stderr)


def case_absolute_path() -> None:
    print(called(opened(ROOT / "near/libtop.so"), "top"))


def case_relative_paths() -> None:
    os.chdir(ROOT / "near")
    for path in ("./libtop.so", "../far/libleaf.so", "../near/./libtop.so", "..//near/libuser.so"):
        print(path, opened(path) is not None, said())


def case_same_handle_by_every_name() -> None:
    os.chdir(ROOT)
    names = ["near/libtop.so", ROOT / "near/libtop.so", "./links/libtop.so", "linked/libtop.so"]
    print(len({opened(name) for name in names}))


def case_origin_is_of_the_path_given() -> None:
    print(called(opened(ROOT / "linked/libuser.so"), "user"))
    print(opened(ROOT / "links/libtop.so") is not None, said())


def case_above_a_linked_directory() -> None:
    """Where ".." leads, and where its letters would, are libraries of one name."""
    print(called(opened(f"{ROOT}/v1/inner/../libspeaks.so"), "version"))
    print(called(opened(ROOT / "v1/libspeaks.so"), "version"))


def case_rpath_above_a_linked_directory() -> None:
    print(called(opened(ROOT / "v1/inner/libneeds.so"), "needs"))
    print(called(opened(ROOT / "v1/libspeaks.so"), "version"))


def case_loaded_only_when_loaded() -> None:
    path = ROOT / "far/libleaf.so"
    print(opened(path, LAZY | NOLOAD), said())
    first = opened(path)
    print(first is not None and opened(path, LAZY | NOLOAD) == first, said())
    print(own.dlclose(first), own.dlclose(first), opened(path, LAZY | NOLOAD), said())


def case_begins_and_ends() -> None:
    handle = opened(ROOT / "v1/libspeaks.so")
    print(called(handle, "version"), flush=True)
    own.dlclose(handle)
    print("closed", flush=True)


def case_errors() -> None:
    os.chdir(ROOT / "bad")
    for name in sorted(os.listdir()):
        if name != "closed.so":
            print(name, opened(ROOT / "bad" / name), said(), opened(f"./{name}"), said())
    for name in ("none.so", "text.so/x.so", "none/x.so", "n" * 300 + "/x.so"):
        print(name[:9], opened(ROOT / "bad" / name), said())
    for name in ("./none.so", "none.so", "../lost/liblost.so", ROOT / "lost/liblost.so"):
        print(name, opened(name), said(), said())


def case_error_of_a_file_that_is_closed_to_us() -> None:
    os.stat(ROOT / "bad/closed.so")
    if os.geteuid() != 0:
        return  # nobody else packs it
    os.setegid(65534)
    os.seteuid(65534)
    print(opened(ROOT / "bad/closed.so"), said())


def case_error_goes_when_it_was_read() -> None:
    print(opened(ROOT / "bad/none.so"), opened(ROOT / "far/libleaf.so") is not None, said())
    print(own.dlsym(opened(ROOT / "far/libleaf.so"), b"nothing"), said(), said())


def case_address_names_the_file() -> None:
    about = ctypes.CDLL(str(ROOT / "about/libabout.so"))
    about.about.restype = ctypes.c_char_p
    text = ctypes.create_string_buffer(100)
    print(about.about(), about.beside(text, 100), text.value)


def case_maps_lead_to_the_directory() -> None:
    opened(ROOT / "about/libabout.so")
    lines = Path("/proc/self/maps").read_text().splitlines()
    names = {line.split()[-1] for line in lines if "libabout" in line}
    for name in names:
        directory = os.path.dirname(name)
        print(sorted(os.listdir(directory)), Path(directory, "data.txt").read_text())
        print(os.path.samefile(name, ROOT / "about/libabout.so"))


def case_absolute_rpath() -> None:
    print(called(opened(ROOT / "absolute/one/libone.so"), "user"))


def case_absolute_rpaths_in_a_row() -> None:
    handle = opened(ROOT / "absolute/two/libtwo.so")
    print(called(handle, "top"))
    own.dlclose(handle)
    print(opened(ROOT / "far/libleaf.so", LAZY | NOLOAD), said())


def case_callers_runpath() -> None:
    print(called(caller(ROOT / "caller/libcaller.so")("libinner.so"), "leaf"), said())


def case_callers_runpath_outside() -> None:
    print(called(caller(OUTSIDE / "side/libcaller.so")("libinner.so"), "leaf"), said())
    print(caller(OUTSIDE / "side/libcaller.so")("libnone.so"), said())


def case_callers_origin_in_a_path() -> None:
    call = caller(ROOT / "caller/libcaller.so")
    print(called(call("$ORIGIN/inner/libinner.so"), "leaf"), said())
    print(called(call("${ORIGIN}/../near/libtop.so"), "top"), said())


def case_callers_rpath_for_what_is_needed() -> None:
    print(called(caller(ROOT / "caller/libold.so")(ROOT / "lost/liblost.so"), "user"), said())


def case_outside_needs_what_is_inside() -> None:
    print(called(opened(OUTSIDE / "side/libuser.so"), "user"), said())


def case_link_outside() -> None:
    print(called(opened(OUTSIDE / "link.so"), "leaf"), said())


def case_not_of_the_tree() -> None:
    print(own.dlopen(None, NOW) is not None, opened("") is not None)
    print(opened("libm.so.6") is not None)


def case_extension_module() -> None:
    sys.path.insert(0, str(ROOT / "packages"))
    import _lsprof

    print(_lsprof.__file__, _lsprof.Profiler.__name__)


def case_many_threads() -> None:
    found: list[object] = []
    names = ["near/libtop.so", "absolute/two/libtwo.so", "about/libabout.so", "v2/libspeaks.so"] * 4
    threads = [
        threading.Thread(target=lambda name=name: found.append(opened(ROOT / name)))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(set(found)), None in found)


def case_many_processes() -> None:
    made = ROOT / "crowd"
    shutil.copytree(ROOT / "near", made / "near")
    shutil.copytree(ROOT / "far", made / "far")
    pids = []
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if called(opened(made / "near/libtop.so"), "top") == 115 else 1)
        pids.append(pid)
    print([os.waitpid(pid, 0)[1] for pid in pids])


def case_programs() -> None:
    ran(ROOT / "bin/origin")
    ran("./origin", cwd=ROOT / "bin")
    ran("../bin/origin", cwd=ROOT / "far")
    ran("origin", env={**os.environ, "PATH": f"{ROOT / 'bin'}:/bin"})
    ran(ROOT / "bin/absolute")
    ran(ROOT / "bin/without")


def case_programs_of_many_directories() -> None:
    for top in (ROOT / "bin", OUTSIDE):
        ran(top / "padded")
        ran(top / "padded_old")


def case_program_spawned() -> None:
    reader, writer = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    path = str(ROOT / "bin/origin")
    pid = os.posix_spawn(path, ["named"], os.environ, file_actions=actions)
    os.close(writer)
    print(os.read(reader, 9999).decode(), os.waitpid(pid, 0)[1])


def case_scripts() -> None:
    ran(ROOT / "bin/script")
    ran(OUTSIDE / "script")
    os.chmod(OUTSIDE / "script", 0o644)
    try:
        ran(OUTSIDE / "script")
    except OSError as error:
        print(error.errno)
    os.chmod(OUTSIDE / "script", 0o755)


def case_library_path_of_programs() -> None:
    for value in (ROOT / "far", f"/none:{ROOT / 'far'}:/tmp", f"{ROOT / 'near'};{ROOT / 'far'}"):
        env = {**os.environ, "LD_LIBRARY_PATH": str(value)}
        ran(ROOT / "bin/without", env=env)
        ran(OUTSIDE / "without", env=env)
        ran("sh", "-c", f"{ROOT}/bin/without; env | grep ^LD_LIB", env=env)
    ran(OUTSIDE / "absolute")


def case_library_path_of_dlopen() -> None:
    code = "import ctypes; print(ctypes.CDLL('libuser.so').user(), ctypes.CDLL('liblost.so'))"
    for near in ("near", "none"):
        value = f"{ROOT / near}:{ROOT / 'far'}:{ROOT / 'lost'}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": value})  # fmt: skip
        print(re.sub(r"0x\w+|handle \w+", "", done.stdout), done.stderr.split("\n")[-2:])


def case_perl() -> None:
    if shutil.which("perl"):
        load = "require DynaLoader; print DynaLoader::dl_load_file($ARGV[0]) ? 1 : 0"
        ran("perl", "-e", load, ROOT / "near/libtop.so")


def case_output_libraries() -> None:
    shutil.copytree(ROOT / "near", ROOT / "made/near")
    shutil.copytree(ROOT / "far", ROOT / "made/far")
    print(called(opened(ROOT / "made/near/libtop.so"), "top"), said())
    os.rename(ROOT / "made", ROOT / "moved")
    print(opened(ROOT / "made/near/libuser.so") is not None, said())
    print(opened(ROOT / "made/far/none.so"), said())
    print(called(opened(ROOT / "moved/near/libuser.so"), "user"), said())
    os.remove(ROOT / "moved/far/libleaf.so")


def case_output_beside_inputs() -> None:
    shutil.copy(ROOT / "far/libleaf.so", ROOT / "lost")
    print(called(opened(ROOT / "lost/liblost.so"), "user"), said())
    os.remove(ROOT / "lost/libleaf.so")


def case_output_that_is_gone() -> None:
    shutil.copy(ROOT / "far/libleaf.so", ROOT / "lost")
    own.dlclose(opened(ROOT / "lost/liblost.so"))
    os.remove(ROOT / "lost/libleaf.so")
    print(opened(ROOT / "lost/liblost.so"), said())
    print(opened(ROOT / "lost/libleaf.so"), said())


def case_output_in_a_new_version() -> None:
    target = ROOT / "new.so"
    for version in (1, 2, 1):
        shutil.copy(ROOT / f"v{version}/libspeaks.so", ROOT / "new.tmp")
        os.rename(ROOT / "new.tmp", target)
        handle = opened(target)
        print(called(handle, "version"), flush=True)
        own.dlclose(handle)
    handle = opened(target)
    shutil.copy(ROOT / "v2/libspeaks.so", target.with_suffix(".tmp"))
    os.rename(target.with_suffix(".tmp"), target)
    print(opened(target) == handle, called(handle, "version"), flush=True)


def case_output_programs() -> None:
    (ROOT / "program").mkdir()
    shutil.copytree(ROOT / "far", ROOT / "program/far")
    shutil.copytree(ROOT / "bin", ROOT / "program/bin")
    ran(ROOT / "program/bin/origin")
    ran(ROOT / "program/bin/without", env={"LD_LIBRARY_PATH": str(ROOT / "program/far")})
    with open(ROOT / "program/bin/origin", "rb") as stream:
        print(os.stat(stream.name).st_nlink, os.fstat(stream.fileno()).st_nlink)


def case_output_of_the_compiler() -> None:
    source = "int answer(void) { return 42; }"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(ROOT / "compiled.so")]
    subprocess.run(command, input=source.encode(), check=True)
    print(called(opened(ROOT / "compiled.so"), "answer"), said())


def run_case(name: str) -> tuple[int, str]:
    """Runs one in a child: how it ended and what it wrote."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        for fd in (1, 2):
            os.dup2(writer, fd)
        status = 0
        try:
            globals()[f"case_{name}"]()
        except BaseException as error:
            print("raised", type(error).__name__, error)
            status = 1
        sys.stdout.flush()
        os._exit(status)
    os.close(writer)
    with open(reader, "rb") as stream:
        text = stream.read()
    return os.waitpid(pid, 0)[1], text.decode(errors="backslashreplace")


if __name__ == "__main__":
    names = [name.removeprefix("case_") for name in list(globals()) if name.startswith("case_")]
    with open(sys.argv[3], "w") as record:
        for each in names:
            print(json.dumps([each, *run_case(each)]), file=record, flush=True)
