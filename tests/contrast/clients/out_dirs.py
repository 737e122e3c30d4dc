"""Directories: listings while they change, descriptors, the current directory, "..", links."""

import glob
import os
import pathlib
import subprocess
import sys

from out_client import KIND, D, Other, T, W, facts, get, names, opened, p, put, show, tell


def put_at(directory, name):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=directory))


def case_listing_grows_and_shrinks():
    show("at first", names())
    for i in range(5):
        put(p(f"f{i}"))
        show("more", names())
    for i in range(5):
        os.unlink(p(f"f{i}"))
        show("less", names())


def case_scandir_types():
    put(p("file"))
    os.mkdir(p("directory"))
    os.symlink("file", p("link"))
    with os.scandir(D) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            kinds = entry.is_file(), entry.is_dir(), entry.is_symlink()
            same = entry.inode() == os.lstat(entry.path).st_ino
            show(entry.name, kinds, same, oct(entry.stat().st_mode))


def case_listing_is_one_of_its_time():
    for i in range(3):
        put(p(f"before{i}"))
    entries = os.scandir(D)
    first = next(entries).name
    os.unlink(p("before1"))
    seen = {first, *(entry.name for entry in entries)}
    show("kept names are seen", {"before0", "before2", "given", "sub"} <= seen)
    show("anew", names())


def case_removal_while_listing():
    """As rm -r and find -delete do."""
    os.mkdir(p("d"))
    for i in range(150):
        put(p("d", f"f{i}"), b"")
    count = 0
    with os.scandir(p("d")) as entries:
        for entry in entries:
            os.unlink(entry.path)
            count += 1
    show("removed", count, names(p("d")))
    tell("rmdir", os.rmdir, p("d"))


def case_many_names():
    os.mkdir(p("many"))
    for i in range(600):
        put(p("many", f"file-with-a-longer-name-{i:05d}"), b"")
    found = names(p("many"))
    show("all", len(found), len(set(found)), found[0], found[-1])
    show("glob", len(glob.glob(p("many", "*-0010?"))))


def case_walk():
    os.makedirs(p("a", "b"))
    put(p("a", "f"))
    put(p("a", "b", "g"))
    put(p("sub", "new"))
    os.symlink("a", p("link"))
    for folder, folders, files in os.walk(D):
        folders.sort()
        show(os.path.relpath(folder, D), folders, sorted(files))
    show("rglob", sorted(str(path.relative_to(D)) for path in pathlib.Path(D).rglob("*")))


def case_dirfd_relative():
    os.mkdir(p("d"))
    for label in (".", "d", "sub"):
        fd = os.open(p(label), os.O_RDONLY | os.O_DIRECTORY)
        here = p(label)
        os.close(os.open("f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=fd))
        tell("exclusive", opened, "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=fd)
        tell("mkdirat", os.mkdir, "m", dir_fd=fd)
        tell("symlinkat", os.symlink, "f", "l", dir_fd=fd)
        tell("fstatat", lambda fd=fd: oct(os.stat("l", dir_fd=fd).st_mode))
        tell("lstatat", lambda fd=fd: os.readlink("l", dir_fd=fd))
        tell("chmodat", os.chmod, "f", 0o600, dir_fd=fd)
        tell("utimensat", os.utime, "f", ns=(10**18, 10**18), dir_fd=fd)
        tell("accessat", os.access, "f", os.W_OK, dir_fd=fd)
        tell("renameat", os.rename, "f", "g", src_dir_fd=fd, dst_dir_fd=fd)
        tell("through", opened, "m/../g", dir_fd=fd)
        tell("up", opened, f"../{os.path.basename(here)}/g" if label != "." else "./g", dir_fd=fd)
        tell("below a file", opened, "g/x", dir_fd=fd)
        show("list", sorted(os.listdir(fd)), facts(p(label, "g")), os.stat(p(label, "g")).st_mtime)
        tell("unlinkat", os.unlink, "g", dir_fd=fd)
        tell("unlinkat of a directory", os.unlink, "m", dir_fd=fd)
        tell("rmdirat", os.rmdir, "m", dir_fd=fd)
        tell("unlinkat of a link", os.unlink, "l", dir_fd=fd)
        os.lseek(fd, 0, os.SEEK_SET)
        show("list", sorted(os.listdir(fd)))
        os.close(fd)


def case_directory_descriptor():
    os.mkdir(p("d"))
    put(p("d", "f"))
    fd = os.open(p("d"), os.O_RDONLY)
    show("stat", facts(fd), os.fstat(fd).st_ino == os.stat(p("d")).st_ino)
    tell("read", os.read, fd, 10)
    tell("write", os.write, fd, b"x")
    tell("ftruncate", os.ftruncate, fd, 0)
    tell("fsync", os.fsync, fd)
    copy = os.dup(fd)
    show("list of a copy", os.listdir(copy))
    os.fchmod(fd, 0o700)
    show("mode", facts(p("d")))
    show("proc", os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))


def case_current_directory():
    os.mkdir(p("d"))
    for name in ("", "d", "sub"):
        os.chdir(p(name))
        show("cwd", os.getcwd() == os.path.normpath(p(name)), os.getcwd())
        put("f", b"relative")
        os.mkdir("e")
        put("e/g", b"below")
        put("./e/../h", b"dots")
        show("list", names("."), names("e"), get("f"), get(p(name, "h")))
        os.rename("f", "e/f")
        os.symlink("e/f", "link")
        show("link", get("link"), os.path.realpath("link") == os.path.realpath(p(name, "e/f")))
        os.unlink("e/g")
        tell("rmdir", os.rmdir, "e")
        tell("access", os.access, "e/f", os.W_OK)
        tell("truncate", os.truncate, "e/f", 3)
        tell("chmod", os.chmod, "e/f", 0o600)
        show("stat", facts("e/f"), facts("link", True))
    os.chdir(p("d"))
    os.chdir("..")
    show("up", os.getcwd() == D, sorted(os.listdir()))
    tell("through missing", os.chdir, "none")
    tell("to a file", os.chdir, "given")


def case_current_directory_by_descriptor():
    os.makedirs(p("d", "e"))
    fd = os.open(p("d"), os.O_RDONLY)
    os.fchdir(fd)
    show("cwd", os.getcwd() == p("d"))
    put("f", b"here")
    os.chdir("e")
    put("../g", b"above")
    put("../../h", b"twice above")
    show("now", names("."), names(".."), names("../.."))


def case_children_in_an_output_directory():
    os.mkdir(p("d"))
    run = subprocess.run
    done = run(["sh", "-c", "pwd; echo made > f; ls; cat f; cd ..; ls"], cwd=p("d"),
               capture_output=True, check=False)  # fmt: skip
    show("shell", done.stdout.decode(), done.stderr.decode(), done.returncode)
    code = "import os; print(os.getcwd()); open('g', 'w').write('x'); print(sorted(os.listdir()))"
    done = run([sys.executable, "-c", code], cwd=p("d"), capture_output=True, check=False)
    show("python", done.stdout.decode(), done.stderr.decode(), done.returncode)
    show("now", names(p("d")), get(p("d", "f")))


def case_current_directory_is_removed():
    os.mkdir(p("d"))
    os.chdir(p("d"))
    tell("rmdir", os.rmdir, p("d"))
    tell("create", opened, "f", os.O_WRONLY | os.O_CREAT)
    tell("mkdir", os.mkdir, "e")
    tell("getcwd", os.getcwd)
    show("now", names())


def case_current_directory_is_renamed():
    os.mkdir(p("d"))
    os.chdir(p("d"))
    os.rename(p("d"), p("e"))
    put("f", b"after the rename")
    show("cwd", os.path.basename(os.getcwd()))
    show("now", names(), names(p("e")), names("."))


def case_descriptor_of_a_renamed_directory():
    os.mkdir(p("d"))
    fd = os.open(p("d"), os.O_RDONLY)
    os.rename(p("d"), p("e"))
    tell("create", opened, "f", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    show("now", names(), names(p("e")), os.listdir(fd))


def case_descriptor_of_a_directory_that_others_rename():
    """A descriptor's path is asked for again whoever moved the directory, or one above it."""
    other = Other()
    os.makedirs(p("a", "d"))
    fd = os.open(p("a", "d"), os.O_RDONLY)
    put_at(fd, "1")
    put_at(fd, "2")
    other.tell("rename", f"os.rename({p('a', 'd')!r}, {p('a', 'e')!r})")
    put_at(fd, "3")
    other.tell("one above", f"os.rename({p('a')!r}, {p('b')!r})")
    put_at(fd, "4")
    os.mkdir(p("a"))
    os.mkdir(p("a", "d"))
    put_at(fd, "5")
    show("now", names(p("a", "d")), names(p("b", "e")))
    other.tell("emptied", f"[os.unlink({p('b', 'e')!r} + '/' + n) for n in '12345']")
    other.tell("rmdir", f"os.rmdir({p('b', 'e')!r})")
    tell("create in what is gone", os.open, "6", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    other.tell("another of that name", f"os.mkdir({p('b', 'e')!r})")
    tell("create again", os.open, "7", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    show("empty", names(p("b", "e")))
    other.end()


def case_descriptors_of_several_directories():
    """Numbers of descriptors are used again for other directories."""
    for i in range(3):
        os.mkdir(p(f"d{i}"))
    for i in range(6):
        fd = os.open(p(f"d{i % 3}"), os.O_RDONLY)
        twin = os.dup(fd)
        put_at(fd, f"f{i}")
        os.close(fd)
        put_at(twin, f"g{i}")
        os.close(twin)
    one, two = (os.open(p(f"d{i}"), os.O_RDONLY) for i in range(2))
    for i in range(3):
        put_at(one, f"one{i}")
        put_at(two, f"two{i}")
    os.dup2(one, two)
    put_at(two, "both")
    show("now", [names(p(f"d{i}")) for i in range(3)])


def case_proc_self_fd():
    os.mkdir(p("d"))
    fd = os.open(p("d"), os.O_RDONLY)
    put(f"/proc/self/fd/{fd}/f", b"by way of proc")
    tell("mkdir", os.mkdir, f"/proc/self/fd/{fd}/e")
    tell("rename", os.rename, f"/proc/self/fd/{fd}/f", f"/proc/self/fd/{fd}/e/g")
    show("now", names(p("d")), names(p("d", "e")), names(f"/proc/self/fd/{fd}"))
    here = os.open(D, os.O_RDONLY)
    put(f"/dev/fd/{here}/h", b"x")
    show("now", names())
    os.chdir(p("d"))
    put("/proc/self/cwd/i", b"x")
    show("now", names(p("d")))


def case_prefix_behind_links():
    os.symlink(T, f"{W}/tree")
    within = os.path.relpath(D, T)
    put(f"{W}/tree/{within}/f", b"x")
    os.chdir(f"{W}/tree/{within}")
    put("g", b"x")
    show("cwd", os.getcwd() == D, names("."))
    put(f"{W}/tree/../{os.path.basename(T)}/{within}/h", b"x")
    os.chdir(W)
    put(f"tree/{within}/i", b"x")
    show("now", names())
    os.unlink(f"{W}/tree")


def case_new_modules_are_found():
    """Python looks again into a directory whose time has changed."""
    sys.path.insert(0, D)
    put(p("first_module.py"), b"VALUE = 1\n")
    import first_module

    show("first", first_module.VALUE)
    before = os.stat(D).st_mtime_ns
    import time

    time.sleep(0.02)
    put(p("second_module.py"), b"VALUE = 2\n")
    show("time moved", os.stat(D).st_mtime_ns > before if KIND == "output" else True)
    if KIND == "input":
        import importlib

        importlib.invalidate_caches()
    import second_module

    show("second", second_module.VALUE)


def case_others_see_directories():
    other = Other()
    os.makedirs(p("d", "e"))
    other.tell("directory", f"facts({p('d')!r})")
    other.tell("list", f"names({D!r})")
    other.tell("create", f"put({p('d', 'e', 'f')!r}, b'of another')[-3:]")
    show("mine", get(p("d", "e", "f")), names(p("d", "e")))
    other.tell("rename", f"os.rename({p('d')!r}, {p('g')!r})")
    show("mine", names(), get(p("g", "e", "f")))
    os.chdir(p("g"))
    other.tell("remove", f"os.unlink({p('g', 'e', 'f')!r})")
    show("mine", names("e"))
    other.end()


def case_root_of_the_mount():
    name = f"{T}/of_{os.path.basename(D)}_{KIND}"
    put(name, b"at the root")
    show("there", os.path.basename(name) in os.listdir(T), get(name))
    os.mkdir(name + "_d")
    put(name + "_d/f", b"x")
    os.chdir(T)
    show("relative", get(os.path.basename(name)))
    tell("rmdir of it", os.rmdir, T + "/.")
    os.unlink(name)
    os.unlink(name + "_d/f")
    os.rmdir(name + "_d")
    show("gone", os.path.basename(name) in os.listdir(T))


def case_inputs_and_outputs_together():
    for name in ("text", "links", "empty_dir"):
        folder = f"{T}/{name}"
        before = names(folder)
        put(f"{folder}/new_{KIND}", b"beside inputs")
        os.mkdir(f"{folder}/dir_{KIND}")
        put(f"{folder}/dir_{KIND}/f", b"below")
        show(name, names(folder), get(f"{folder}/new_{KIND}"))
        os.unlink(f"{folder}/dir_{KIND}/f")
        os.rmdir(f"{folder}/dir_{KIND}")
        os.unlink(f"{folder}/new_{KIND}")
        show(name, names(folder) == before)
    put(f"{T}/links/to_dir/through", b"x")
    put(f"{T}/links/to_new", b"by a dangling input link")
    show("through", get(f"{T}/text/through"), get(f"{T}/text/made_by_link"))
    os.unlink(f"{T}/text/through")
    os.unlink(f"{T}/text/made_by_link")
