"""mmap of files on the tree: private, shared, offsets, ends, and what outlives what."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import ctypes
import hashlib
import mmap
import os
import signal
import sys

from contrast_client import BIG, HELLO, MID, T, W, fails, run, same, show

PAGE = mmap.PAGESIZE


def digest(data):
    return hashlib.md5(data).hexdigest()


def mapped(path, length=0, offset=0, **options):
    options.setdefault("access", mmap.ACCESS_READ)
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), length, offset=offset, **options)


def case_read_only():
    for name in ("small", "page", "page1", "b64k", "mid", "big", "zeros", "sparse", "pattern"):
        with mapped(f"{T}/bin/{name}.bin") as view:
            show(name, len(view), view.size(), digest(view))


def case_small_files():
    for path in (HELLO, f"{T}/text/x", f"{T}/hard/one"):
        with mapped(path) as view:
            show("content", view[:], view.find(b"o"))


def case_private():
    with mapped(MID, access=mmap.ACCESS_COPY) as view:
        view[:5] = b"XXXXX"
        view[100_000] = 7
        show("changed", view[:8], view[100_000], digest(view))
    show("file unchanged", open(MID, "rb").read(8), digest(open(MID, "rb").read()))


def case_private_by_flags():
    with open(BIG, "rb") as file:
        view = mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    view[PAGE * 3 : PAGE * 3 + 4] = b"abcd"
    show("changed", digest(view))
    show("file unchanged", digest(open(BIG, "rb").read()))


def case_shared_read():
    with open(BIG, "rb") as file:
        view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    show("content", digest(view))
    fails_type(view)


def fails_type(view):
    try:
        view[0] = 1
    except TypeError as error:
        show("readonly", str(error))


def case_shared_write_eacces():
    with open(BIG, "rb") as file:
        fails(
            "EACCES",
            mmap.mmap,
            file.fileno(),
            0,
            flags=mmap.MAP_SHARED,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
        fails("EACCES", mmap.mmap, file.fileno(), 0)


def case_offset():
    for offset, length in ((PAGE, 100), (PAGE * 16, 0), (PAGE * 48, 3395), (PAGE * 10, PAGE * 2)):
        with mapped(MID, length, offset) as view:
            show(f"{offset}+{length}", len(view), digest(view))


def case_bad_arguments():
    with open(MID, "rb") as file:
        fails("EINVAL", mmap.mmap, file.fileno(), 100, access=mmap.ACCESS_READ, offset=1000)
    fails("EBADF", mmap.mmap, 999, 100, access=mmap.ACCESS_READ)
    for call in (lambda: mapped(f"{T}/text/empty.txt"), lambda: mapped(MID, 300_000)):
        try:
            call()
        except ValueError as error:
            show("refused", str(error))
    fails("ENODEV", mmap.mmap, os.open(f"{T}/text", os.O_RDONLY), 100, prot=mmap.PROT_READ)


def case_tail_of_the_last_page_is_zero():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    for path in (HELLO, f"{T}/bin/small.bin", MID):
        fd, size = os.open(path, os.O_RDONLY), os.stat(path).st_size
        whole = (size + PAGE - 1) // PAGE * PAGE
        address = libc.mmap(None, size, 1, 2, fd, 0)
        data = ctypes.string_at(address, whole)
        show(path, digest(data[:size]), set(data[size:]))


def case_beyond_the_end_is_sigbus():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    for path in (HELLO, MID):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            fd, size = os.open(path, os.O_RDONLY), os.stat(path).st_size
            whole = (size + PAGE - 1) // PAGE * PAGE
            address = libc.mmap(None, whole + PAGE, 1, 2, fd, 0)
            ctypes.string_at(address, 10)
            ctypes.string_at(address + whole, 1)
            os._exit(0)
        same("signal", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGBUS)


def case_outlives_the_descriptor():
    fd = os.open(BIG, os.O_RDONLY)
    view = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    os.close(fd)
    other = os.open(HELLO, os.O_RDONLY)
    show("content", digest(view), os.read(other, 5))


def case_descriptor_still_reads():
    fd = os.open(MID, os.O_RDONLY)
    os.read(fd, 10)
    view = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    show("offset kept", os.lseek(fd, 0, os.SEEK_CUR), os.read(fd, 5) == view[10:15])
    show("stat", os.fstat(fd).st_size, os.readlink(f"/proc/self/fd/{fd}"))


def case_seek_read_find_on_the_map():
    view = mapped(f"{T}/text/lines.txt")
    show(
        "readline",
        view.readline(),
        view.tell(),
        view.read(5),
        view.find(b"02999"),
        view.rfind(b"line"),
    )
    view.seek(-10, os.SEEK_END)
    show("tail", view.read())


def case_fork_reads_the_same_map():
    view = mapped(BIG)
    pid = os.fork()
    if pid == 0:
        show("child", digest(view))
        os._exit(0)
    os.waitpid(pid, 0)
    show("parent", digest(view))


def case_many_maps():
    views = [mapped(f"{T}/many/f{i:05d}.dat") for i in range(300)]
    same("content", all(view[:] == b"%d\n" % i for i, view in enumerate(views)), True)


def case_map_of_a_dup():
    fd = os.dup(os.open(MID, os.O_RDONLY))
    show("content", digest(mmap.mmap(fd, 0, prot=mmap.PROT_READ)))


def case_madvise_and_flush():
    view = mapped(BIG)
    for advice in (mmap.MADV_SEQUENTIAL, mmap.MADV_WILLNEED, mmap.MADV_RANDOM, mmap.MADV_DONTNEED):
        view.madvise(advice)
    show("content", digest(view))


def case_resize_and_anonymous():
    anonymous = mmap.mmap(-1, 10_000)
    anonymous[:12] = open(HELLO, "rb").read()
    show("anonymous", anonymous[:12])
    with open(f"{W}/own", "wb+") as file:
        file.write(bytes(8192))
        file.flush()
        view = mmap.mmap(file.fileno(), 8192)
        view[:12] = open(HELLO, "rb").read()
        view.flush()
    show("own file", open(f"{W}/own", "rb").read(12))


def case_executable_map():
    with open(f"{T}/scripts/echo", "rb") as file:
        view = mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC
        )
    show("content", digest(view))


if __name__ == "__main__":
    run(globals())
