"""Names come and go: unlink, rmdir, mkdir, symlink, link, mknod, and names that are odd."""

import os
import shutil
import socket
import stat
import tempfile

from out_client import D, T, W, facts, get, names, opened, p, put, show, tell


def case_unlink():
    put(p("a"))
    tell("unlink", os.unlink, p("a"))
    tell("again", os.unlink, p("a"))
    tell("stat", os.stat, p("a"))
    show("now", names())


def case_unlink_errors():
    put(p("a"))
    os.mkdir(p("d"))
    tell("missing", os.unlink, p("none"))
    tell("directory", os.unlink, p("d"))
    tell("directory with a slash", os.unlink, p("d/"))
    tell("through a file", os.unlink, p("a", "x"))
    tell("missing directory", os.unlink, p("none", "x"))
    tell("slash", os.unlink, p("a/"))
    tell("empty", os.unlink, "")
    tell("dot", os.unlink, p("."))
    show("now", names())


def case_unlink_of_links():
    put(p("f"))
    os.mkdir(p("d"))
    for target in ("f", "d", "none"):
        os.symlink(target, p("link"))
        tell(target, os.unlink, p("link"))
    os.symlink("d", p("link"))
    tell("link with slash", os.unlink, p("link/"))
    show("now", names())


def case_unlinked_while_read():
    put(p("a"), b"content")
    fd = os.open(p("a"), os.O_RDONLY)
    os.unlink(p("a"))
    show("read", os.read(fd, 100), os.fstat(fd).st_nlink)


def case_unlinked_while_written():
    fd = os.open(p("a"), os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"one ")
    tell("unlink", os.unlink, p("a"))
    os.write(fd, b"two")
    show("read", os.pread(fd, 100, 0), os.fstat(fd).st_nlink)
    tell("stat", os.stat, p("a"))
    os.close(fd)
    show("now", names())


def case_unlinked_and_made_again():
    first = os.open(p("a"), os.O_RDWR | os.O_CREAT, 0o600)
    os.write(first, b"first")
    os.unlink(p("a"))
    second = os.open(p("a"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(second, b"second")
    show("two files", os.fstat(first).st_ino != os.fstat(second).st_ino)
    os.close(second)
    show("first", os.pread(first, 100, 0))
    os.close(first)
    show("now", names(), get(p("a")))


def case_many_times_the_same_name():
    for i in range(20):
        put(p("a"), b"%d" % i)
        show("content", get(p("a")))
        os.unlink(p("a"))
    show("now", names())


def case_mkdir():
    tell("mkdir", os.mkdir, p("d"))
    show("it", facts(p("d")), names(p("d")), names())
    tell("inside", os.mkdir, p("d", "e"))
    put(p("d", "e", "f"))
    show("content", get(p("d", "e", "f")), os.path.isdir(p("d", "e")))


def case_mkdir_existing():
    put(p("a"))
    os.mkdir(p("d"))
    os.symlink("d", p("link"))
    os.symlink("none", p("dangling"))
    for name in ("a", "d", "link", "dangling", "given", "sub", ".", "..", "d/.", "d/", "link/"):
        tell(name, os.mkdir, p(name))
    tell("itself", os.mkdir, D)
    tell("the mount", os.mkdir, T)
    tell("slash", os.mkdir, "/")


def case_mkdir_errors():
    put(p("a"))
    tell("missing parent", os.mkdir, p("none", "d"))
    tell("parent is a file", os.mkdir, p("a", "d"))
    tell("parent is given", os.mkdir, p("given", "d"))
    tell("empty", os.mkdir, "")
    tell("long", os.mkdir, p("n" * 256))
    tell("through dangling", os.mkdir, p("given", "..", "d"))
    tell("trailing slash", os.mkdir, p("d/"))
    tell("trailing slashes", os.mkdir, p("e///"))
    show("now", names())


def case_mkdir_mode_and_umask():
    for mask in (0o022, 0o077, 0):
        os.umask(mask)
        for mode in (0o777, 0o700, 0o1777, 0o2755):
            name = f"d{mask:o}_{mode:o}"
            os.mkdir(p(name), mode)
            show(name, facts(p(name)))


def case_makedirs():
    tell("deep", os.makedirs, p("a", "b", "c"))
    tell("again", os.makedirs, p("a", "b", "c"))
    tell("exist_ok", os.makedirs, p("a", "b", "c", "d"), exist_ok=True)
    tell("below sub", os.makedirs, p("sub", "b", "c"), exist_ok=True)
    tell("over a file", os.makedirs, p("given"), exist_ok=True)


def case_rmdir():
    os.makedirs(p("d", "e"))
    put(p("f"))
    os.symlink("d", p("link"))
    tell("not empty", os.rmdir, p("d"))
    tell("file", os.rmdir, p("f"))
    tell("link", os.rmdir, p("link"))
    tell("missing", os.rmdir, p("none"))
    tell("dot", os.rmdir, p("d", "e", "."))
    tell("dotdot", os.rmdir, p("d", "e", ".."))
    tell("through a file", os.rmdir, p("f", "d"))
    tell("inner", os.rmdir, p("d", "e"))
    tell("outer, slash", os.rmdir, p("d/"))
    tell("again", os.rmdir, p("d"))
    show("now", names())


def case_rmdir_after_unlink_and_rename():
    os.makedirs(p("d"))
    put(p("d", "f"))
    tell("full", os.rmdir, p("d"))
    os.unlink(p("d", "f"))
    tell("unlinked", os.rmdir, p("d"))
    os.makedirs(p("d"))
    put(p("d", "f"))
    os.rename(p("d", "f"), p("f"))
    tell("renamed", os.rmdir, p("d"))
    show("now", names())


def case_rmdir_of_a_directory_in_use():
    os.mkdir(p("d"))
    fd = os.open(p("d"), os.O_RDONLY)
    tell("rmdir", os.rmdir, p("d"))
    tell("create in it", os.open, "f", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    tell("mkdir again", os.mkdir, p("d"))
    show("now", names(), names(p("d")))


def case_names_that_were_removed_below():
    os.makedirs(p("d", "e"))
    put(p("d", "e", "f"))
    shutil.rmtree(p("d"))
    tell("file", os.stat, p("d", "e", "f"))
    tell("create", opened, p("d", "e", "g"), os.O_WRONLY | os.O_CREAT)
    os.makedirs(p("d"))
    tell("not back", os.stat, p("d", "e"))
    show("now", names(), names(p("d")))


def case_symlink():
    put(p("f"), b"target")
    tell("symlink", os.symlink, "f", p("link"))
    show("it", os.readlink(p("link")), facts(p("link")), get(p("link")), facts(p("link"), True))
    tell("existing", os.symlink, "f", p("link"))
    tell("over a file", os.symlink, "f", p("f"))
    tell("over given", os.symlink, "f", p("given"))
    tell("missing parent", os.symlink, "f", p("none", "link"))
    tell("empty target", os.symlink, "", p("e"))
    tell("empty name", os.symlink, "f", "")
    tell("slash", os.symlink, "f", p("slash/"))
    tell("longest target", os.symlink, "t" * 4000, p("longest"))
    tell("too long", os.symlink, "t" * 4096, p("too_long"))
    tell("through", os.readlink, p("longest"))
    tell("readlink of a file", os.readlink, p("f"))
    tell("readlink of missing", os.readlink, p("none"))


def case_symlink_leads_everywhere():
    os.mkdir(p("d"))
    put(p("d", "f"), b"inner")
    with open(f"{W}/outside", "w") as file:
        file.write("outside")
    for name, target in {
        "relative": "d/f", "up": "../" + os.path.basename(D) + "/d/f", "absolute": p("d", "f"),
        "given_file": "given", "tree": f"{T}/text/hello.txt", "out": f"{W}/outside",
        "directory": "d", "chain": "directory/f", "dots": "./d/../d/./f",
        "input_directory": f"{T}/text", "dangling": "none", "loop": "loop",
    }.items():  # fmt: skip
        os.symlink(target, p(name))
        tell(name, get, p(name))
        tell(f"{name} stat", facts, p(name), True)
        tell(f"{name} below", get, p(name, "f"))
    tell("inputs through", get, p("input_directory", "hello.txt"))
    tell("real", lambda: os.path.realpath(p("chain")) == os.path.realpath(p("d", "f")))


def case_write_through_links():
    os.mkdir(p("d"))
    os.symlink("target", p("link"))
    os.symlink("d", p("dir"))
    os.symlink(f"{W}/outside", p("out"))
    put(p("link"), b"created through a dangling link")
    put(p("dir", "f"), b"through a directory")
    put(p("out"), b"outside")
    tell("exclusive", opened, p("link"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    tell("nofollow", opened, p("link"), os.O_WRONLY | os.O_NOFOLLOW)
    tell("nofollow create", opened, p("link"), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    show("now", names(), get(p("target")), names(p("d")), get(f"{W}/outside"))
    tell("truncate", os.truncate, p("link"), 7)
    tell("chmod", os.chmod, p("link"), 0o600)
    show("now", get(p("target")), facts(p("target")), os.readlink(p("link")))
    os.unlink(f"{W}/outside")


def case_many_links():
    put(p("f"))
    os.symlink("f", p("l0"))
    for i in range(1, 45):
        os.symlink(f"l{i - 1}", p(f"l{i}"))
    tell("40", get, p("l39"))
    tell("41", get, p("l40"))
    tell("create", opened, p("l44"), os.O_WRONLY | os.O_CREAT)


def case_link_by_link_from_outside():
    os.symlink(D, f"{W}/in")
    put(f"{W}/in/f", b"through a link outside")
    os.mkdir(f"{W}/in/d")
    os.rename(f"{W}/in/f", f"{W}/in/d/g")
    show("now", names(), names(f"{W}/in/d"), get(f"{W}/in/d/g"))
    os.unlink(f"{W}/in/d/g")
    os.rmdir(f"{W}/in/d")
    os.unlink(f"{W}/in")
    show("now", names())


def case_links_out():
    far = f"{W}/far"
    os.makedirs(f"{far}/d")
    put(f"{far}/f")
    os.symlink(far, p("out"))
    tell("mkdir", os.mkdir, p("out", "made"))
    tell("rename", os.rename, p("out", "f"), p("out", "g"))
    tell("rename into", os.rename, p("out", "g"), p("out", "d", "g"))
    tell("link", os.link, p("out", "d", "g"), p("out", "h"))
    tell("link over", os.link, p("out", "h"), p("out", "d"))
    tell("symlink", os.symlink, "h", p("out", "l"))
    tell("chmod", os.chmod, p("out", "l"), 0o604)
    tell("truncate", os.truncate, p("out", "l"), 3)
    tell("utime", os.utime, p("out", "l"), ns=(10**9, 2 * 10**9))
    tell("mkfifo", os.mkfifo, p("out", "fifo"))
    tell("rmdir", os.rmdir, p("out", "made"))
    show("now", names(far), facts(f"{far}/h"), os.stat(f"{far}/h").st_mtime_ns, get(f"{far}/d/g"))
    shutil.rmtree(far)


def case_links_out_and_in_again():
    far = f"{W}/far"
    os.mkdir(far)
    os.mkdir(p("d"))
    os.symlink(far, p("out"))
    os.symlink(p("d"), f"{far}/in")
    tell("mkdir", os.mkdir, p("out", "in", "made"))
    tell("write", put, p("out", "in", "f"), b"out and in")
    tell("read", get, p("out", "in", "f"))
    tell("rename", os.rename, p("out", "in", "f"), p("out", "in", "g"))
    tell("rename out of it", os.rename, p("out", "in", "g"), p("g"))
    tell("rename into it", os.rename, p("g"), p("out", "in", "made", "h"))
    tell("chmod", os.chmod, p("out", "in", "made"), 0o711)
    show("now", names(), names(p("d")), facts(p("d", "made")), get(p("d", "made", "h")))
    shutil.rmtree(far)


def case_hard_links():
    put(p("f"))
    tell("output", os.link, p("f"), p("g"))
    tell("existing", os.link, p("f"), p("given"))
    tell("itself", os.link, p("f"), p("f"))
    tell("missing", os.link, p("none"), p("g"))
    tell("missing parent", os.link, p("f"), p("none", "g"))
    tell("now", names)
    show("it", os.stat(p("f")).st_nlink, os.path.samefile(p("f"), p("g")))
    put(p("g"), b"by the other name")
    show("it", get(p("f")))
    os.unlink(p("f"))
    show("it", os.stat(p("g")).st_nlink, get(p("g")))


def case_devices():
    tell("character", os.mknod, p("c"), 0o20600, os.makedev(1, 3))
    tell("block", os.mknod, p("b"), 0o60600, os.makedev(1, 3))
    tell("now", names)


def case_mknod_of_a_file():
    tell("mknod", os.mknod, p("f"), 0o100640)
    tell("no type", os.mknod, p("g"), 0o640)
    tell("existing", os.mknod, p("f"), 0o100640)
    show("now", facts(p("f")), facts(p("g")), get(p("f")))
    put(p("f"), b"written", os.O_WRONLY)
    show("now", get(p("f")))


def case_odd_names():
    odd = (
        b"with space", b"new\nline", b"tab\t", b"quote'\"`", b"-dash", b"star*?[a]", b"back\\slash",
        b"$HOME", b".hidden", b"...", b"..x", b"~", b"#h;s&a|p", b"\xff\xfe", b"\x01", b"trailing ",
        "ünïcödé-日本".encode(), b"n" * 255, b" ",
    )  # fmt: skip
    folder = os.fsencode(p("odd"))
    os.mkdir(folder)
    for name in odd:
        put(folder + b"/" + name, name)
        os.mkdir(folder + b"/" + name[:250] + b".d")
        put(folder + b"/" + name[:250] + b".d/" + name, name)
    show("list", sorted(os.listdir(folder)))
    for name in odd:
        same = get(folder + b"/" + name[:250] + b".d/" + name) == name
        show("each", get(folder + b"/" + name) == name, same)
    os.rename(folder + b"/new\nline", folder + b"/other\nline")
    os.unlink(folder + b"/$HOME")
    show("list", sorted(os.listdir(folder)))


def case_long_paths():
    """Absolute ones up to PATH_MAX, and beyond it by relative ones."""
    path = D
    while len(path) + 202 < 4095:
        path += "/" + "d" * 200
        os.mkdir(path)
    last = path + "/" + "f" * (4094 - len(path))
    tell("fits", put, last)
    tell("content", get, last)
    tell("too long", opened, last + "f", os.O_WRONLY | os.O_CREAT)
    tell("long component", opened, p("c" * 256), os.O_WRONLY | os.O_CREAT)
    tell("long component inside", opened, p("c" * 256, "x"), os.O_WRONLY | os.O_CREAT)
    tell("unlink", os.unlink, last)
    show("done", len(last), names(path))
    shutil.rmtree(p("d" * 200))


def case_dots_and_slashes():
    os.makedirs(p("d", "e"))
    put(p("d//e///f"), b"slashes")
    put(p("d/./e/../g"), b"dots")
    put(p("d/e/../../h"), b"up")
    put(p("sub/../d/i"), b"through sub")
    put(f"{T}/../{os.path.basename(T)}/{os.path.relpath(D, T)}/j", b"out and in again")
    tell("missing in between", put, p("none/../k"))
    tell("file in between", put, p("d/g/../k"))
    tell("slash behind a file", opened, p("d/g/"))
    tell("slash behind a new file", opened, p("d/new/"), os.O_WRONLY | os.O_CREAT)
    tell("dot behind a file", opened, p("d/g/."))
    show("now", names(), names(p("d")), names(p("d/e")))
    show("content", get(p("d/e/./f")), get(p("d/e/../g")), get(p("h")))


def case_temporary_files():
    fd, path = tempfile.mkstemp(dir=D)
    os.write(fd, b"temporary")
    os.close(fd)
    show("mkstemp", get(path), facts(path), len(names()))
    os.unlink(path)
    folder = tempfile.mkdtemp(dir=D)
    show("mkdtemp", facts(folder), names(folder))
    os.rmdir(folder)
    with tempfile.NamedTemporaryFile(dir=D) as file:
        file.write(b"named")
        file.flush()
        show("named", os.path.getsize(file.name), len(names()) - len(names(p("sub"))))
    with tempfile.TemporaryFile(dir=D) as file:
        file.write(b"unnamed")
        file.seek(0)
        show("unnamed", file.read(), names())
    with tempfile.TemporaryDirectory(dir=D) as folder:
        put(folder + "/f")
    show("now", names())


def case_unnamed_files():
    fd = os.open(D, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"unnamed")
    show("read", os.pread(fd, 100, 0), os.fstat(fd).st_nlink, oct(os.fstat(fd).st_mode))
    tell("read-only", os.open, D, os.O_TMPFILE | os.O_RDONLY)
    tell("missing", os.open, p("none"), os.O_TMPFILE | os.O_RDWR)
    tell("file", os.open, p("given"), os.O_TMPFILE | os.O_RDWR)
    os.close(fd)
    show("now", names())


def case_copies():
    os.makedirs(p("d", "e"))
    put(p("d", "f"), b"one" * 1000)
    put(p("d", "e", "f"), b"two")
    os.symlink("f", p("d", "link"))
    os.chmod(p("d", "f"), 0o755)
    os.utime(p("d", "f"), ns=(10**18, 10**18 + 1))
    shutil.copytree(p("d"), p("copy"), symlinks=True)
    shutil.copy(p("d", "f"), p("copied"))
    shutil.copyfile(p("given"), p("from_given"))
    shutil.copy2(f"{T}/text/hello.txt", p("hello"))
    shutil.copytree(f"{T}/text", p("inputs"))
    show("now", names(), names(p("copy")), names(p("inputs")), facts(p("copy", "f")))
    show("time", os.stat(p("copy", "f")).st_mtime_ns)
    shutil.rmtree(p("copy"))
    shutil.move(p("d"), p("inputs"))
    show("now", names(), names(p("inputs")))


def case_special_files():
    hello = f"{T}/text/hello.txt"
    kinds = {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "device": stat.S_IFCHR}
    for label, kind in kinds.items():
        tell(label, os.mknod, p("new"), kind | 0o600)
        tell(f"{label} over an output", os.mknod, put(p("f")), kind | 0o600)
        tell(f"{label} over an input", os.mknod, hello, kind | 0o600)
        tell(f"{label} below missing", os.mknod, p("none", "new"), kind | 0o600)
    tell("mkfifo", os.mkfifo, p("new"))
    tell("made", os.path.lexists, p("new"))


def case_sockets():
    long = "n" * 20
    os.mkdir(p("folder"))
    put(p("f"))
    for name in ("socket", f"folder/{long}"):
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
            os.chdir(D)
            tell("bind", one.bind, name)
            one.listen()
            show("it", stat.S_IFMT(os.stat(name).st_mode), os.path.basename(one.getsockname()))
            tell("connect", two.connect, name)
            os.chdir(W)
            tell("again", one.connect, f"{T}/none")
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(D)
        tell("over an output", one.bind, "f")
        tell("over a socket", one.bind, "socket")
        tell("below missing", one.bind, "none/socket")
        tell("no socket", one.connect, "f")
        tell("nobody listens", one.connect, "socket")
    os.unlink("socket")
    shutil.rmtree("folder")
    show("now", names())
