"""open(2): each flag on names that are there and that are not; reads and writes of descriptors."""

import contextlib
import errno
import fcntl
import mmap
import os
import resource
import select

from out_client import Other, facts, get, names, opened, p, put, result, show, tell

WAYS = {
    "rdonly": os.O_RDONLY, "wronly": os.O_WRONLY, "rdwr": os.O_RDWR,
    "append": os.O_WRONLY | os.O_APPEND, "trunc": os.O_WRONLY | os.O_TRUNC,
    "rdonly_trunc": os.O_RDONLY | os.O_TRUNC, "creat": os.O_WRONLY | os.O_CREAT,
    "rdonly_creat": os.O_RDONLY | os.O_CREAT, "rdwr_creat": os.O_RDWR | os.O_CREAT,
    "excl": os.O_WRONLY | os.O_CREAT | os.O_EXCL, "excl_alone": os.O_WRONLY | os.O_EXCL,
    "rdonly_excl": os.O_RDONLY | os.O_CREAT | os.O_EXCL,
    "directory": os.O_RDONLY | os.O_DIRECTORY, "path": os.O_PATH,
    "path_nofollow": os.O_PATH | os.O_NOFOLLOW, "nofollow": os.O_RDONLY | os.O_NOFOLLOW,
    "nofollow_creat": os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW,
    "directory_creat": os.O_RDONLY | os.O_CREAT | os.O_DIRECTORY,
    "directory_write": os.O_RDWR | os.O_DIRECTORY, "cloexec": os.O_RDWR | os.O_CLOEXEC,
    "creat_trunc": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    "creat_append": os.O_WRONLY | os.O_CREAT | os.O_APPEND, "nonblock": os.O_RDWR | os.O_NONBLOCK,
    "sync": os.O_WRONLY | os.O_CREAT | os.O_SYNC, "noatime": os.O_RDONLY | os.O_NOATIME,
}  # fmt: skip


def each_way(target, prepare, *clean):
    for label, flags in WAYS.items():
        prepare()
        tell(label, opened, target, flags)
        show("then", names())
        for name in clean:
            with contextlib.suppress(OSError):
                os.unlink(p(name))


def case_new_file():
    each_way(p("new"), lambda: None, "new")


def case_existing_file():
    each_way(p("f"), lambda: put(p("f")), "f")
    put(p("f"), b"content")
    opened(p("f"), os.O_RDWR | os.O_CREAT)
    show("kept", get(p("f")))
    opened(p("f"), os.O_RDONLY | os.O_TRUNC)
    show("cut", get(p("f")))


def case_directory():
    os.mkdir(p("d"))
    each_way(p("d"), lambda: None)


def case_link_to_a_file():
    put(p("f"))
    os.symlink("f", p("link"))
    each_way(p("link"), lambda: put(p("f")))


def case_dangling_link():
    os.symlink("f", p("link"))
    each_way(p("link"), lambda: None, "f")


def case_link_to_a_directory():
    os.mkdir(p("d"))
    os.symlink("d", p("link"))
    each_way(p("link"), lambda: None)


def case_looping_link():
    os.symlink("loop", p("loop"))
    each_way(p("loop"), lambda: None)


def case_missing_directory():
    each_way(p("none", "f"), lambda: None)


def case_through_a_file():
    put(p("f"))
    each_way(p("f", "x"), lambda: None)
    each_way(p("given", "x"), lambda: None)


def case_slash_behind():
    put(p("f"))
    each_way(p("f/"), lambda: None)
    each_way(p("new/"), lambda: None)
    os.mkdir(p("d"))
    each_way(p("d/"), lambda: None)


def case_modes_of_python():
    for mode in ("w", "a", "x", "r+", "w+", "a+", "x+", "wb", "ab", "r", "rb"):
        for there in (False, True):
            if there:
                put(p("f"), b"0123456789")
            try:
                with open(p("f"), mode) as file:
                    if mode not in ("r", "rb"):
                        file.write("abc" if "b" not in mode else b"abc")
                    if "+" in mode:
                        file.seek(0)
                        show("read", file.read())
                show(mode, there, get(p("f")))
            except OSError as error:
                show(mode, there, errno.errorcode[error.errno])
            if os.path.exists(p("f")):
                os.unlink(p("f"))


def case_read_write_seek():
    with open(p("f"), "w+b") as file:
        file.write(b"0123456789" * 1000)
        file.seek(5)
        file.write(b"xyz")
        file.seek(0)
        show("start", file.read(12))
        file.seek(-3, os.SEEK_END)
        show("end", file.read(), file.tell())
        file.truncate(20)
        show("size", os.fstat(file.fileno()).st_size)
    show("now", get(p("f")))


def case_descriptor_calls():
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0o644)
    show("writev", os.writev(fd, [b"one ", b"two ", b"three"]))
    show("pwrite", os.pwrite(fd, b"ONE", 0), os.pwritev(fd, [b"TW", b"O"], 4))
    show("pread", os.pread(fd, 7, 0), os.preadv(fd, [bytearray(3)], 4))
    show("lseek", os.lseek(fd, 0, os.SEEK_CUR), os.lseek(fd, 3, os.SEEK_SET), os.read(fd, 4))
    os.posix_fallocate(fd, 0, 100)
    show("fallocate", os.fstat(fd).st_size)
    os.ftruncate(fd, 5)
    show("ftruncate", os.fstat(fd).st_size)
    os.fsync(fd)
    os.fdatasync(fd)
    show("flags", fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND))
    show("poll", select.select([fd], [fd], [], 0) == ([fd], [fd], []))
    show("isatty", os.isatty(fd))
    os.close(fd)
    show("now", get(p("f")))


def case_holes():
    with open(p("f"), "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    with open(p("f"), "rb") as file:
        show("size", os.fstat(file.fileno()).st_size, os.fstat(file.fileno()).st_blocks < 1024)
        show("data", os.lseek(file.fileno(), 0, os.SEEK_DATA))
        show("hole", os.lseek(file.fileno(), 0, os.SEEK_HOLE))


def case_append_is_atomic():
    children = []
    fd = os.open(p("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for i in range(3):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                os.write(fd, b"%d" % i * 9 + b"\n")
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    os.close(fd)
    lines = get(p("log")).split()
    show("whole", len(lines), sorted({line for line in lines}))
    os.unlink(p("log"))


def case_append_reopened():
    for i in range(5):
        with open(p("log"), "a") as file:
            show("at", file.tell())
            file.write(f"line {i}\n")
        show("size", os.path.getsize(p("log")))
    show("now", get(p("log")))


def case_two_descriptors_of_one_process():
    first = os.open(p("f"), os.O_WRONLY | os.O_CREAT, 0o644)
    second = os.open(p("f"), os.O_RDWR)
    third = os.open(p("f"), os.O_RDONLY)
    os.write(first, b"first ")
    os.lseek(second, 0, os.SEEK_END)
    os.write(second, b"second")
    show("read", os.read(third, 100), os.fstat(first).st_ino == os.fstat(third).st_ino)
    os.close(first)
    os.write(second, b" more")
    show("read", os.read(third, 100))
    os.close(second)
    os.close(third)
    show("now", get(p("f")))


def case_truncated_by_another_open():
    with open(p("f"), "wb", buffering=0) as file:
        file.write(b"long content")
        with open(p("f"), "wb", buffering=0) as again:
            again.write(b"short")
        show("size", os.fstat(file.fileno()).st_size)
    show("now", get(p("f")))


def case_reopened_in_place():
    put(p("f"), b"0123456789")
    with open(p("f"), "r+b") as file:
        file.seek(3)
        file.write(b"abc")
    show("now", get(p("f")))
    reader = os.open(p("f"), os.O_RDONLY)
    with open(p("f"), "r+b") as file:
        file.write(b"XYZ")
    show("again", get(p("f")))
    os.close(reader)


def case_reader_across_a_rewrite():
    """A new process sees the new content."""
    other = Other()
    put(p("f"), b"old")
    other.tell("old", f"get({p('f')!r})")
    put(p("f"), b"new content")
    other.tell("new", f"get({p('f')!r})")
    put(p("f"), b"")
    other.tell("empty", f"get({p('f')!r})")
    os.unlink(p("f"))
    other.tell("gone", f"get({p('f')!r})")
    other.end()


def case_mappings():
    with open(p("f"), "w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as mapping:
            mapping[4096:4100] = b"page"
            mapping.flush()
        file.seek(4096)
        show("written", file.read(4))
    with open(p("f"), "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
            show("read", mapping[4096:4100], len(mapping))
        show("denied", result(mmap.mmap, file.fileno(), 0, access=mmap.ACCESS_WRITE))
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
            mapping[:4] = b"mine"
    show("now", get(p("f"))[:8])


def case_kernel_copies():
    put(p("from"), b"x" * 70_000)
    source = os.open(p("from"), os.O_RDONLY)
    given = os.open(p("given"), os.O_RDONLY)
    target = os.open(p("to"), os.O_WRONLY | os.O_CREAT, 0o644)
    show("copy_file_range", os.copy_file_range(source, target, 40_000))
    show("sendfile", os.sendfile(target, source, 40_000, 30_000))
    show("sendfile from given", os.sendfile(target, given, 0, 100))
    read, write = os.pipe()
    os.write(write, b"through a pipe")
    show("splice", os.splice(read, target, 100) if hasattr(os, "splice") else 14)
    if not hasattr(os, "splice"):
        os.write(target, b"through a pipe")
    os.close(target)
    show("now", len(get(p("to"))), get(p("to"))[-30:])


def case_access():
    put(p("f"))
    os.mkdir(p("d"))
    for name in ("f", "d", "none", "f/x", ".", "sub", ""):
        for mode in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.W_OK):
            tell(f"{name} {mode}", os.access, p(name), mode)
    os.chmod(p("f"), 0o444)
    show("0444", os.access(p("f"), os.R_OK), os.access(p("f"), os.X_OK))


def case_reopened_by_descriptor():
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, b"content")
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    show("proc", os.read(again, 100), facts(fd), facts(again))
    dev = os.open(f"/dev/fd/{fd}", os.O_RDWR)
    os.write(dev, b"CON")
    os.close(dev)
    os.close(fd)
    os.close(again)
    path = os.open(p("f"), os.O_PATH)
    show("of a path", get(f"/proc/self/fd/{path}"), oct(os.fstat(path).st_mode))
    show("now", get(p("f")))


def case_file_size_limit():
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT, 0o644)
    tell("part", os.write, fd, b"x" * 1500)
    tell("none", os.write, fd, b"x")
    os.close(fd)
    show("now", os.path.getsize(p("f")))


def case_out_of_descriptors():
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, lowest))
    tell("none left", os.open, p("f"), os.O_WRONLY | os.O_CREAT)
    tell("stat", os.path.exists, p("f"))


def case_bad_arguments():
    tell("empty", os.open, "", os.O_WRONLY | os.O_CREAT)
    tell("all access bits", os.open, p("f"), 3)
    tell("bad dirfd", os.open, "f", os.O_WRONLY | os.O_CREAT, dir_fd=999)
    file = os.open(p("given"), os.O_RDONLY)
    tell("dirfd of a file", os.open, "f", os.O_WRONLY | os.O_CREAT, dir_fd=file)
    tell("absolute with bad dirfd", opened, p("f"), os.O_WRONLY | os.O_CREAT, dir_fd=999)
    show("now", names())


BY_DESCRIPTOR = {
    "rdwr": os.O_RDWR, "wronly": os.O_WRONLY, "append": os.O_WRONLY | os.O_APPEND,
    "trunc": os.O_WRONLY | os.O_TRUNC, "creat": os.O_RDWR | os.O_CREAT,
    "rdonly_trunc": os.O_RDONLY | os.O_TRUNC,
}  # fmt: skip


def write_by(path, flags):
    fd = os.open(path, flags)
    if flags & os.O_ACCMODE != os.O_RDONLY:
        os.write(fd, b"other")
    os.close(fd)


def case_written_by_a_descriptors_path():
    for label, flags in BY_DESCRIPTOR.items():
        for way in ("/proc/self/fd/{}", "/dev/fd/{}", f"/proc/{os.getpid()}/fd/{{}}"):
            put(p("f"), b"content of this")
            fd = os.open(p("f"), os.O_RDONLY)
            tell(label, write_by, way.format(fd), flags)
            show("then", get(p("f")))
            os.close(fd)
            os.unlink(p("f"))


def case_changed_by_a_descriptors_path():
    put(p("f"), b"content of this")
    fd = os.open(p("f"), os.O_RDONLY)
    path = f"/proc/self/fd/{fd}"
    tell("truncate", os.truncate, path, 3)
    show("cut", get(p("f")))
    fd = os.open(p("f"), os.O_RDONLY)
    path = f"/proc/self/fd/{fd}"
    tell("chmod", os.chmod, path, 0o640)
    tell("utime", os.utime, path, ns=(7, 9))
    show("it", facts(p("f")), os.stat(p("f")).st_mtime_ns)
    os.close(fd)


def case_a_descriptors_path():
    put(p("f"), b"content")
    fd = os.open(p("f"), os.O_RDONLY)
    path = f"/proc/self/fd/{fd}"
    show("link", os.readlink(path), os.path.realpath(path))
    show("the same", os.path.samestat(os.stat(path), os.fstat(fd)))
    os.rename(p("f"), p("g"))
    show("renamed", os.readlink(path))
    with open(path, "rb") as stream:
        show("read", stream.read())
    with open(p("h"), "w") as stream:
        show("being written", os.readlink(f"/proc/self/fd/{stream.fileno()}"))
        stream.write("first ")
        stream.flush()
        with open(f"/dev/fd/{stream.fileno()}", "a") as again:
            again.write("second")
    show("written", get(p("h")))


def case_a_removed_files_path():
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT)
    os.unlink(p("f"))
    os.write(fd, b"unseen")
    with open(f"/proc/self/fd/{fd}", "r+b") as stream:
        show("again", stream.read())
        stream.write(b" and more")
    show("all", os.pread(fd, 100, 0), names())
