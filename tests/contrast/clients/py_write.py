"""Changing an input: each call fails as on a file system that is mounted read-only."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import ctypes
import mmap
import os
import shutil
import socket

from contrast_client import HELLO, MID, MISSING, O, T, W, fails, run, same, show

libc = ctypes.CDLL(None, use_errno=True)
NEW = f"{T}/text/new"


def own(name="own"):
    with open(f"{W}/{name}", "w") as file:
        file.write("mine\n")
    return f"{W}/{name}"


def case_open_for_writing():
    for mode in ("w", "a", "r+", "w+", "a+", "wb", "r+b"):
        fails("EROFS", open, HELLO, mode)
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_NONBLOCK):
        fails("EROFS", os.open, HELLO, flags)
        fails("EROFS", os.open, f"{T}/links/to_file", flags)
    show("content", open(HELLO).read())


def case_open_truncating():
    for flags in (os.O_TRUNC, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_TRUNC | os.O_CREAT):
        fails("EROFS", os.open, MID, flags)
    show("size", os.path.getsize(MID))


def case_open_creating():
    fails("EROFS", os.open, HELLO, os.O_WRONLY | os.O_CREAT)
    fails("ENOENT", os.open, f"{T}/links/dangling", os.O_WRONLY | os.O_CREAT)
    fails("ENOENT", open, f"{T}/none/new", "w")
    fails("ENOTDIR", open, f"{HELLO}/new", "w")
    fails("EEXIST", open, HELLO, "x")
    fails("EISDIR", open, f"{T}/text", "w")
    fails("ENAMETOOLONG", open, f"{T}/" + "n" * 256, "w")


def case_open_with_dir_fd():
    fd = os.open(f"{T}/text", os.O_RDONLY)
    fails("EROFS", os.open, "hello.txt", os.O_WRONLY, dir_fd=fd)
    fails("EEXIST", os.open, "x", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=fd)
    os.fchdir(fd)
    fails("EROFS", open, "hello.txt", "w")
    fails("EEXIST", os.mkdir, "sub")


def case_open_through_outside_links():
    fails("EROFS", open, f"{O}/file", "a")
    fails("EROFS", os.unlink, f"{O}/dir/x")
    show("content", open(f"{O}/file").read())


def case_access_w_ok():
    for name in ("text/x", "modes/m0000", "links/to_file"):
        show(name, os.access(f"{T}/{name}", os.W_OK), os.access(f"{T}/{name}", os.R_OK | os.W_OK))
    ctypes.set_errno(0)
    same("errno", (libc.access(HELLO.encode(), os.W_OK), ctypes.get_errno()), (-1, 30))
    same("errno", (libc.access(MISSING.encode(), os.W_OK), ctypes.get_errno()), (-1, 2))


def case_unlink():
    fails("EROFS", os.unlink, HELLO)
    fails("EROFS", os.remove, f"{T}/links/to_file")
    fails("EROFS", os.unlink, f"{T}/text")
    fails("ENOENT", os.unlink, f"{T}/none/x")
    fails("ENOTDIR", os.unlink, f"{HELLO}/x")
    fails("EROFS", os.unlink, "hello.txt", dir_fd=os.open(f"{T}/text", os.O_RDONLY))
    show("still there", open(HELLO).read())


def case_mkdir():
    fails("EEXIST", os.mkdir, f"{T}/text")
    fails("EEXIST", os.mkdir, HELLO)
    fails("EEXIST", os.mkdir, T)
    fails("EEXIST", os.mkdir, f"{T}/links/dangling")
    fails("ENOENT", os.mkdir, f"{T}/none/new")
    fails("ENOTDIR", os.mkdir, f"{HELLO}/new")
    fails("EEXIST", os.mkdir, f"{T}/text/.")


def case_makedirs():
    os.makedirs(f"{T}/text/sub", exist_ok=True)
    fails("EEXIST", os.makedirs, f"{T}/text/sub")


def case_rmdir():
    fails("EROFS", os.rmdir, f"{T}/empty_dir")
    fails("EROFS", os.rmdir, f"{T}/text")
    fails("EROFS", os.rmdir, HELLO)
    fails("ENOENT", os.rmdir, f"{T}/none/x")
    fails("EINVAL", os.rmdir, f"{T}/text/.")
    fails("ENOTEMPTY", os.rmdir, f"{T}/text/..")
    show("still there", os.path.isdir(f"{T}/empty_dir"))


def case_rename():
    fails("EROFS", os.rename, HELLO, NEW)
    fails("EROFS", os.rename, HELLO, MID)
    fails("EROFS", os.rename, f"{T}/text", f"{T}/other")
    fails("EROFS", os.replace, HELLO, NEW)
    fails("ENOENT", os.rename, f"{T}/none/x", NEW)
    fails("ENOENT", os.rename, HELLO, f"{T}/none/x")
    fails("ENOTDIR", os.rename, f"{HELLO}/x", NEW)
    fails("EBUSY", os.rename, f"{T}/text/.", NEW)
    fails(
        "EROFS",
        os.rename,
        "hello.txt",
        "new",
        src_dir_fd=os.open(f"{T}/text", 0),
        dst_dir_fd=os.open(T, 0),
    )


def case_rename_across_the_boundary():
    path = own()
    fails("EXDEV", os.rename, HELLO, f"{W}/x")
    fails("EXDEV", os.rename, path, HELLO)
    show("kept", open(path).read(), os.listdir(W))


def case_shutil_move_out():
    fails("EROFS", shutil.move, f"{T}/text/x", f"{W}/moved")
    show("still there", open(f"{T}/text/x").read())


def case_link():
    fails("EEXIST", os.link, HELLO, MID)
    fails("EXDEV", os.link, HELLO, f"{W}/x")
    fails("ENOENT", os.link, MISSING, NEW)
    fails("ENOENT", os.link, HELLO, f"{T}/none/x")


def case_symlink():
    fails("EEXIST", os.symlink, "target", HELLO)
    fails("EEXIST", os.symlink, "target", f"{T}/links/dangling")
    fails("ENOENT", os.symlink, "target", f"{T}/none/x")
    fails("ENOENT", os.symlink, "", NEW)


def case_mkfifo_and_mknod():
    fails("EEXIST", os.mkfifo, HELLO)
    fails("EEXIST", os.mknod, HELLO)
    fails("ENOENT", os.mknod, f"{T}/none/x")


def case_bind_a_socket():
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(f"{T}/text")
        fails("EADDRINUSE", listener.bind, "hello.txt")


def case_truncate():
    fails("EROFS", os.truncate, HELLO, 0)
    fails("EROFS", os.truncate, f"{T}/links/to_file", 100)
    fails("EISDIR", os.truncate, f"{T}/text", 0)
    fails("ENOENT", os.truncate, MISSING, 0)
    fails("EINVAL", os.truncate, HELLO, -1)
    fails("EINVAL", os.ftruncate, os.open(HELLO, os.O_RDONLY), 0)
    show("size", os.path.getsize(HELLO))


def case_chmod():
    fails("EROFS", os.chmod, HELLO, 0o600)
    fails("EROFS", os.chmod, f"{T}/text", 0o700)
    fails("ENOENT", os.chmod, MISSING, 0o600)
    fails("EROFS", os.fchmod, os.open(HELLO, os.O_RDONLY), 0o600)
    fails("EROFS", os.chmod, "x", 0o600, dir_fd=os.open(f"{T}/text", os.O_RDONLY))
    show("mode", oct(os.stat(HELLO).st_mode))


def case_chown():
    fails("EROFS", os.chown, HELLO, 0, 0)
    fails("EROFS", os.lchown, f"{T}/links/dangling", 0, 0)
    fails("ENOENT", os.chown, f"{T}/links/dangling", 0, 0)
    fails("EROFS", os.fchown, os.open(HELLO, os.O_RDONLY), 0, 0)
    fails(
        "EROFS",
        os.chown,
        "x",
        -1,
        -1,
        dir_fd=os.open(f"{T}/text", os.O_RDONLY),
        follow_symlinks=False,
    )


def case_utime():
    before = os.stat(HELLO).st_mtime_ns
    fails("EROFS", os.utime, HELLO)
    fails("EROFS", os.utime, HELLO, (1, 2))
    fails("EROFS", os.utime, HELLO, ns=(1, 2))
    fails("EROFS", os.utime, os.open(HELLO, os.O_RDONLY), ns=(1, 2))
    fails("EROFS", os.utime, f"{T}/links/dangling", ns=(1, 2), follow_symlinks=False)
    fails("EROFS", os.utime, "x", ns=(1, 2), dir_fd=os.open(f"{T}/text", os.O_RDONLY))
    fails("ENOENT", os.utime, MISSING)
    same("time", os.stat(HELLO).st_mtime_ns == before, True)


def case_extended_attributes():
    fails("EROFS", os.setxattr, HELLO, "user.a", b"x")
    fails("EROFS", os.setxattr, os.open(HELLO, os.O_RDONLY), "user.a", b"x")
    fails("EROFS", os.removexattr, HELLO, "user.a")
    fails("EROFS", os.removexattr, os.open(HELLO, os.O_RDONLY), "user.a")
    fails("ENOENT", os.setxattr, MISSING, "user.a", b"x")


def case_fallocate_and_copy_into():
    fd = os.open(HELLO, os.O_RDONLY)
    fails("EBADF", os.posix_fallocate, fd, 0, 100)
    fails("EBADF", os.copy_file_range, os.open(MID, os.O_RDONLY), fd, 10)
    fails("EBADF", os.sendfile, fd, os.open(MID, os.O_RDONLY), 0, 10)
    show("content", open(HELLO).read())


def case_shared_writable_map():
    with open(HELLO, "rb") as file:
        fails("EACCES", mmap.mmap, file.fileno(), 0, access=mmap.ACCESS_WRITE)
    show("content", open(HELLO).read())


def case_shutil_rmtree():
    fails("EROFS", shutil.rmtree, f"{T}/text/sub")
    show("still there", sorted(os.listdir(f"{T}/text/sub")))


def case_pathlib_changes():
    import pathlib

    path = pathlib.Path(HELLO)
    fails("EROFS", path.write_text, "x")
    fails("EROFS", path.unlink)
    fails("EROFS", path.touch)
    fails("EROFS", path.rename, NEW)


def case_numpy_memmap_rw():
    np = __import__("numpy")
    fails("EROFS", np.memmap, f"{T}/arrays/raw.f64", dtype="f8", mode="r+")
    fails("EROFS", np.load, f"{T}/arrays/a.npy", mmap_mode="r+")
    fails("EROFS", np.save, f"{T}/arrays/a.npy", np.ones(3))
    fails("EROFS", np.ones(3).tofile, f"{T}/arrays/raw.f64")


def case_fsync_and_locks_still_work():
    import fcntl

    fd = os.open(HELLO, os.O_RDONLY)
    os.fsync(fd)
    fcntl.flock(fd, fcntl.LOCK_EX)
    show("read", os.read(fd, 5))
    directory = os.open(f"{T}/text", os.O_RDONLY)
    os.fsync(directory)
    show("directory", os.fstat(directory).st_mode)


if __name__ == "__main__":
    run(globals())
