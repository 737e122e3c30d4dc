"""Attributes: modes, times, owners, sizes, file systems, extended attributes."""

import fcntl
import os
import time

from out_client import D, Other, T, expect, facts, get, opened, p, put, show, tell


def case_modes_and_umask():
    for mask in (0o022, 0o077, 0, 0o777):
        os.umask(mask)
        for mode in (0o666, 0o777, 0o600, 0o444, 0o000, 0o4755, 0o1666):
            name = p(f"f{mask:o}_{mode:o}")
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT, mode))
            show(os.path.basename(name), facts(name))


def case_read_only_mode_is_writable_once():
    """As git makes its objects."""
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    os.write(fd, b"content")
    os.close(fd)
    show("it", facts(p("f")), get(p("f")))
    fd = os.open(p("none"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0)
    os.write(fd, b"x")
    os.close(fd)
    show("it", facts(p("none")))


def case_chmod():
    put(p("f"))
    os.mkdir(p("d"))
    os.symlink("f", p("link"))
    for mode in (0o600, 0o755, 0o444, 0o4711, 0o000, 0o644):
        os.chmod(p("f"), mode)
        os.chmod(p("d"), mode | 0o700)
        show("mode", facts(p("f")), facts(p("d")))
    os.chmod(p("link"), 0o640)
    show("through a link", facts(p("f")), oct(os.lstat(p("link")).st_mode))
    tell("missing", os.chmod, p("none"), 0o600)
    tell("below a file", os.chmod, p("f", "x"), 0o600)
    tell("slash", os.chmod, p("f/"), 0o600)


def case_fchmod_while_written():
    other = Other()
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT, 0o600)
    os.fchmod(fd, 0o640)
    show("descriptor", facts(fd))
    os.write(fd, b"x")
    os.close(fd)
    other.tell("after", f"facts({p('f')!r})")
    fd = os.open(p("f"), os.O_RDONLY)
    os.fchmod(fd, 0o400)
    other.tell("of a reader's", f"facts({p('f')!r})")
    os.chmod(p("f"), 0o444)
    show("descriptor", facts(fd))
    other.end()


def case_mode_survives_truncation():
    put(p("f"))
    os.chmod(p("f"), 0o751)
    put(p("f"), b"new")
    show("it", facts(p("f")))
    with open(p("f"), "r+b") as file:
        file.write(b"more")
    show("it", facts(p("f")))


def case_times():
    before = time.time_ns() - 10**8
    put(p("f"))
    found = os.stat(p("f"))
    now = time.time_ns() + 10**8
    show("new", before < found.st_mtime_ns < now, before < found.st_ctime_ns < now)
    os.utime(p("f"), ns=(111_000_000_222, 333_000_000_444))
    found = os.stat(p("f"))
    show("set", found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns > before)
    os.utime(p("f"))
    show("now", before < os.stat(p("f")).st_mtime_ns < time.time_ns() + 10**8)
    tell("missing", os.utime, p("none"))
    tell("below a file", os.utime, p("f", "x"))


def case_times_of_each_kind():
    put(p("f"))
    os.mkdir(p("d"))
    os.symlink("f", p("link"))
    os.utime(p("d"), ns=(1, 2))
    os.utime(p("link"), ns=(3, 4), follow_symlinks=False)
    os.utime(p("f"), ns=(-(10**18), 5 * 10**18))
    for name in ("d", "link", "f"):
        show(name, os.lstat(p(name)).st_mtime_ns)
    os.utime(p("link"), ns=(7, 8))
    show("through", os.stat(p("f")).st_mtime_ns, os.lstat(p("link")).st_mtime_ns)
    fd = os.open(p("f"), os.O_RDONLY)
    os.utime(fd, ns=(9, 10))
    show("descriptor", os.fstat(fd).st_mtime_ns, os.stat(p("f")).st_mtime_ns)


def case_times_set_while_written():
    """As cp -p, tar and rsync do."""
    other = Other()
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, b"content")
    os.utime(fd, ns=(10**18, 10**18 + 7))
    os.close(fd)
    other.tell("after", f"os.stat({p('f')!r}).st_mtime_ns")
    fd = os.open(p("g"), os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(fd, b"content")
    os.utime(p("g"), ns=(10**18, 10**18 + 8))
    os.close(fd)
    other.tell("by name", f"os.stat({p('g')!r}).st_mtime_ns")
    other.end()


def case_directory_times_move():
    os.mkdir(p("d"))
    os.utime(p("d"), ns=(10**18, 10**18))
    for label, change in {
        "create": lambda: put(p("d", "f")),
        "write": lambda: put(p("d", "f"), b"again"),
        "rename": lambda: os.rename(p("d", "f"), p("d", "g")),
        "unlink": lambda: os.unlink(p("d", "g")),
        "mkdir": lambda: os.mkdir(p("d", "e")),
        "rmdir": lambda: os.rmdir(p("d", "e")),
        "symlink": lambda: os.symlink("x", p("d", "l")),
    }.items():
        os.utime(p("d"), ns=(10**18, 10**18))
        change()
        show(label, os.stat(p("d")).st_mtime_ns != 10**18)


def case_owners():
    put(p("f"))
    tell("own", os.chown, p("f"), os.getuid(), os.getgid())
    tell("nothing", os.chown, p("f"), -1, -1)
    tell("link", os.lchown, p("none"), -1, -1)
    fd = os.open(p("f"), os.O_RDONLY)
    tell("descriptor", os.fchown, fd, os.getuid(), -1)
    if os.getuid() == 0:
        os.chown(p("f"), 1234, 5678)
        show("given away", facts(p("f")), facts(fd))
        os.mkdir(p("d"))
        os.chown(p("d"), 12, 34)
        os.symlink("f", p("link"))
        os.lchown(p("link"), 5, 6)
        show("given away", facts(p("d")), facts(p("link")))


def case_descriptors_of_directories():
    os.mkdir(p("d"))
    fd = os.open(p("d"), os.O_RDONLY | os.O_DIRECTORY)
    path_only = os.open(p("d"), os.O_PATH | os.O_DIRECTORY)
    tell("fchmod", os.fchmod, fd, 0o711)
    tell("fchown", os.fchown, fd, os.getuid(), os.getgid())
    tell("fchmod of O_PATH", os.fchmod, path_only, 0o755)
    show("now", facts(p("d")), facts(fd))
    os.mkdir("e", dir_fd=path_only)
    os.rename("e", "f", src_dir_fd=fd, dst_dir_fd=path_only)
    tell("rmdir", os.rmdir, "f", dir_fd=fd)
    os.rename(p("d"), p("moved"))
    tell("fchmod of what was renamed", os.fchmod, fd, 0o700)
    show("now", facts(p("moved")))
    os.close(fd)
    os.close(path_only)


def case_read_only_descriptors():
    put(p("f"))
    fd = os.open(p("f"), os.O_RDONLY)
    tell("fchmod", os.fchmod, fd, 0o640)
    tell("futimens", os.utime, fd, ns=(10**9, 2 * 10**9))
    tell("ftruncate", os.ftruncate, fd, 0)
    show("now", facts(p("f")), os.stat(p("f")).st_mtime_ns)
    os.close(fd)


def case_truncate():
    put(p("f"), b"0123456789")
    os.mkdir(p("d"))
    os.symlink("f", p("link"))
    for size in (5, 8, 0, 100_000):
        tell(f"to {size}", os.truncate, p("f"), size)
        show("now", facts(p("f")), get(p("f"))[:10])
    tell("link", os.truncate, p("link"), 3)
    tell("negative", os.truncate, p("f"), -1)
    tell("directory", os.truncate, p("d"), 0)
    tell("missing", os.truncate, p("none"), 0)
    tell("below a file", os.truncate, p("f", "x"), 0)
    fd = os.open(p("f"), os.O_RDONLY)
    tell("reader", os.ftruncate, fd, 0)
    show("now", facts(p("f")))


def case_stat_agrees():
    put(p("f"), b"x" * 5000)
    os.mkdir(p("d"))
    os.symlink("f", p("link"))
    fd = os.open(p("f"), os.O_RDONLY)
    by_name, by_fd, by_link = os.stat(p("f")), os.fstat(fd), os.stat(p("link"))
    for field in ("st_ino", "st_dev", "st_mode", "st_size", "st_mtime_ns", "st_nlink", "st_uid"):
        values = {getattr(found, field) for found in (by_name, by_fd, by_link)}
        show(field, len(values))
    inodes = {os.lstat(p(name)).st_ino for name in ("f", "d", "link", "given", "sub", ".")}
    show("different", len(inodes), len({os.stat(path).st_dev for path in (T, D, p("f"), p("d"))}))
    show("samefile", os.path.samefile(p("f"), p("link")), os.path.samefile(p("f"), p("given")))
    show("blocks", by_name.st_blocks * 512 >= 5000, by_name.st_blksize > 0)


def case_stat_while_written():
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT, 0o644)
    inode = os.fstat(fd).st_ino
    for i in range(3):
        os.write(fd, b"x" * 100)
        show("sizes", os.fstat(fd).st_size, os.stat(p("f")).st_size, i)
    os.close(fd)
    show("inode", os.stat(p("f")).st_ino == inode)


def case_file_system():
    put(p("f"))
    found = os.statvfs(p("f"))
    show("room", found.f_bavail > 0, found.f_bsize > 0, found.f_namemax)
    show("read only", found.f_flag & os.ST_RDONLY)
    fd = os.open(p("f"), os.O_RDONLY)
    show("descriptor", os.fstatvfs(fd).f_bavail > 0)
    show("directory", os.statvfs(D).f_bavail > 0)
    show("pathconf", os.pathconf(p("f"), "PC_NAME_MAX"), os.fpathconf(fd, "PC_PATH_MAX"))


def case_extended_attributes_are_not_there():
    put(p("f"))
    tell("list", os.listxattr, p("f"))
    tell("get", os.getxattr, p("f"), "user.none")
    tell("missing", os.getxattr, p("none"), "user.none")


def case_descriptor_flags():
    fd = os.open(p("f"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    show("inheritable", os.get_inheritable(fd), fcntl.fcntl(fd, fcntl.F_GETFD))
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"ab")
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"c")
    os.close(fd)
    show("now", get(p("f")))


def served_inputs_stay():
    for path in (f"{T}/text/hello.txt", f"{T}/text", f"{T}/links/to_file"):
        expect("EROFS", "chmod", os.chmod, path, 0o600)
        expect("EROFS", "chown", os.chown, path, 0, 0)
        expect("EROFS", "utime", os.utime, path)
    expect("EROFS", "truncate", os.truncate, f"{T}/text/hello.txt", 0)
    expect("EISDIR", "truncate a directory", os.truncate, f"{T}/text", 0)
    expect("EROFS", "write", opened, f"{T}/text/hello.txt", os.O_WRONLY)
    expect("EROFS", "write and create", opened, f"{T}/text/hello.txt", os.O_RDWR | os.O_CREAT)
    expect("EROFS", "cut", opened, f"{T}/text/hello.txt", os.O_RDONLY | os.O_TRUNC)
    exclusive = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    expect("EEXIST", "exclusive", opened, f"{T}/text/hello.txt", exclusive)
    expect("EEXIST", "exclusive directory", opened, f"{T}/text", exclusive)
    expect("EISDIR", "directory", opened, f"{T}/text", os.O_WRONLY)
    expect("EROFS", "unlink", os.unlink, f"{T}/text/hello.txt")
    expect("EROFS", "unlink a link", os.unlink, f"{T}/links/to_file")
    expect("EROFS", "unlink a directory", os.unlink, f"{T}/text")
    expect("EROFS", "rmdir", os.rmdir, f"{T}/empty_dir")
    expect("EEXIST", "mkdir", os.mkdir, f"{T}/text")
    expect("EEXIST", "mkdir over a file", os.mkdir, f"{T}/text/hello.txt")
    expect("EEXIST", "symlink", os.symlink, "x", f"{T}/text/hello.txt")
    expect("EEXIST", "mkfifo", os.mkfifo, f"{T}/text/hello.txt")
    expect(b"hello world\n", "content", get, f"{T}/text/hello.txt")


def served_access_of_inputs():
    expect(False, "file", os.access, f"{T}/text/hello.txt", os.W_OK)
    expect(True, "directory", os.access, f"{T}/text", os.W_OK)
    expect(True, "root", os.access, T, os.W_OK)
