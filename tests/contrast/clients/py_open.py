"""open() and os.open: modes, buffering, flags, and how each failure is told."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import errno
import io
import os
import resource
import sys

from contrast_client import BIG, HELLO, LINES, MID, MISSING, O, T, W, fails, run, same, show

ODD = f"{T}/names"


def case_text_mode():
    with open(HELLO) as file:
        same("content", file.read(), "hello world\n")
        show(
            "name and mode", file.name, file.mode, file.readable(), file.writable(), file.seekable()
        )


def case_text_encodings():
    for encoding, name in (("utf-8", "wide"), ("latin-1", "latin1"), ("utf-8-sig", "wide")):
        with open(f"{T}/text/{name}.txt", encoding=encoding) as file:
            show(encoding, file.read(7), file.tell(), file.read())


def case_universal_newlines():
    for newline in (None, "", "\n", "\r", "\r\n"):
        with open(f"{T}/text/crlf.txt", newline=newline) as file:
            show(repr(newline), file.readlines())


def case_text_tell_and_seek():
    with open(f"{T}/text/wide.txt", encoding="utf-8") as file:
        file.readline()
        cookie = file.tell()
        rest = file.read()
        file.seek(cookie)
        same("after seek", file.read() == rest, True)
        show("rest", rest)


def case_text_iteration():
    with open(LINES) as file:
        lines = list(file)
    same("count", len(lines), 3000)
    show("last", lines[-1])


def case_bad_utf8_raises():
    try:
        open(f"{T}/text/latin1.txt", encoding="utf-8").read()
    except UnicodeDecodeError as error:
        show("decode error", error.start, error.reason)


def case_binary_buffered():
    with open(MID, "rb") as file:
        show("head", file.read(10), file.tell())
        file.seek(-10, os.SEEK_END)
        show("tail", file.read(), file.tell())
        file.seek(5)
        file.seek(5, os.SEEK_CUR)
        show("peek", file.peek(4)[:4], file.read1(3))


def case_binary_unbuffered():
    with open(MID, "rb", buffering=0) as file:
        show("type", type(file).__name__, file.fileno() >= 3)
        show(
            "parts",
            file.read(7),
            file.seek(0, os.SEEK_END),
            file.read(1),
            file.seek(100),
            file.read(5),
        )
        same("rest", len(file.readall()), 200_003 - 105)


def case_buffer_sizes():
    for size in (1, 2, 17, 4096, 1 << 20):
        with open(BIG, "rb", buffering=size) as file:
            show(str(size), [hash_of(file.read(n)) for n in (1, 4095, 70_000, 3)], file.tell())


def hash_of(data):
    import hashlib

    return hashlib.md5(data).hexdigest()


def case_readinto():
    buffer = bytearray(100_000)
    with open(MID, "rb") as file:
        same("counts", [file.readinto(buffer) for _ in range(4)], [100_000, 100_000, 3, 0])
    with io.FileIO(MID) as raw:
        view = memoryview(buffer)[5:50]
        show("raw", raw.readinto(view), bytes(buffer[:60]))


def case_read_big_in_one_call():
    for name in ("big", "zeros", "sparse", "pattern", "b64k", "page", "page1"):
        with open(f"{T}/bin/{name}.bin", "rb") as file:
            data = file.read()
        show(name, len(data), hash_of(data))


def case_read_at_every_block_edge():
    fd = os.open(BIG, os.O_RDONLY)
    for edge in (4096, 65536, 1 << 20, 2 << 20, 3 << 20):
        for start, count in ((edge - 1, 2), (edge, 1), (edge - 3, 70_000), (edge + 1, 5)):
            show(f"{start}+{count}", hash_of(os.pread(fd, count, start)))


def case_read_backwards():
    with open(BIG, "rb") as file:
        for start in range(3_100_000, 0, -333_333):
            file.seek(start)
            show(str(start), hash_of(file.read(100_000)))


def case_line_reading():
    with open(f"{T}/text/no_newline.txt", "rb") as file:
        show("lines", file.readline(), file.readline(3), file.readline(), file.readline())


def case_pathlike_and_bytes_path():
    import pathlib

    show("path", open(pathlib.Path(HELLO)).read(), open(os.fsencode(HELLO)).read())


def case_odd_names():
    for name in sorted(os.listdir(os.fsencode(ODD))):
        with open(os.path.join(os.fsencode(ODD), name), "rb") as file:
            show("odd", name, file.read())


def case_open_fd():
    fd = os.open(HELLO, os.O_RDONLY)
    with open(fd, closefd=False) as file:
        show("content", file.read())
    show("offset", os.lseek(fd, 0, os.SEEK_CUR))
    os.close(fd)
    fails("EBADF", os.read, fd, 1)
    fails("EBADF", os.fstat, fd)
    fails("EBADF", os.close, fd)


def case_opener():
    directory = os.open(f"{T}/text", os.O_RDONLY)
    with open(
        "hello.txt", opener=lambda name, flags: os.open(name, flags, dir_fd=directory)
    ) as file:
        show("content", file.read())


def case_plus_mode_erofs_or_plain_read():
    with open(HELLO, "rb") as file:
        fails_unsupported(file)


def fails_unsupported(file):
    try:
        file.write(b"x")
    except io.UnsupportedOperation as error:
        show("unsupported", str(error))


def case_missing_enoent():
    fails("ENOENT", open, MISSING)
    fails("ENOENT", os.open, f"{T}/no/such/dir", os.O_RDONLY)
    fails("ENOENT", os.open, f"{T}/links/dangling", os.O_RDONLY)
    fails("ENOENT", os.open, "", os.O_RDONLY)
    fails("ENOENT", os.open, f"{O}/missing", os.O_RDONLY)


def case_exception_carries_the_name():
    try:
        open(MISSING)
    except FileNotFoundError as error:
        show("error", error.filename, error.errno, error.strerror)


def case_directory_eisdir():
    fails("EISDIR", open, f"{T}/text")
    fails("EISDIR", open, f"{T}/links/to_dir", "rb", 0)
    fd = os.open(f"{T}/text", os.O_RDONLY)
    fails("EISDIR", os.read, fd, 1)
    fails("EISDIR", os.pread, fd, 1, 0)


def case_enotdir():
    fails("ENOTDIR", open, f"{HELLO}/x")
    fails("ENOTDIR", open, f"{HELLO}/")
    fails("ENOTDIR", open, f"{HELLO}/.")
    fails("ENOTDIR", open, f"{HELLO}/..")
    fails("ENOTDIR", os.open, HELLO, os.O_RDONLY | os.O_DIRECTORY)
    fails("ENOTDIR", os.open, f"{T}/links/to_file/", os.O_RDONLY)
    fails("ENOTDIR", os.open, f"{T}/links/to_file", os.O_RDONLY | os.O_DIRECTORY)


def case_eloop():
    fails("ELOOP", open, f"{T}/links/loop_a")
    fails("ELOOP", open, f"{T}/links/self/x")
    fails("ELOOP", open, f"{T}/links/chain0")
    fails("ELOOP", os.open, f"{T}/links/to_file", os.O_RDONLY | os.O_NOFOLLOW)
    fails("ENOTDIR", os.open, f"{T}/links/to_dir", os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    show("39 links", open(f"{T}/links/chain6").read())


def case_nofollow_middle_is_followed():
    fd = os.open(f"{T}/links/to_dir/x", os.O_RDONLY | os.O_NOFOLLOW)
    show("content", os.read(fd, 10))


def case_enametoolong():
    fails("ENAMETOOLONG", open, f"{T}/" + "n" * 256)
    fails("ENOENT", open, f"{T}/" + "m" * 255)
    fails("ENAMETOOLONG", open, f"{T}/" + "d/" * 2048)
    fails("ENAMETOOLONG", os.stat, f"{T}/" + "n" * 256)
    fails("ENAMETOOLONG", os.stat, "/" + f"{T}/".ljust(4200, "/"))
    fails("ENAMETOOLONG", os.listdir, f"{T}/text/" + "n" * 300)


def case_long_path_of_exactly_4095():
    padding = 4095 - len(HELLO) - 1
    path = T + "/" * (padding + 1) + HELLO[len(T) :]
    same("length", len(path), 4095)
    show("content", open(path).read())


def case_embedded_nul():
    try:
        open(f"{T}/text\0x")
    except ValueError as error:
        show("error", str(error))


def case_read_flags():
    flags = {
        "CLOEXEC": os.O_CLOEXEC,
        "NONBLOCK": os.O_NONBLOCK,
        "NOCTTY": os.O_NOCTTY,
        "SYNC": os.O_SYNC,
        "DSYNC": os.O_DSYNC,
        "NOATIME": os.O_NOATIME,
        "ASYNC": os.O_ASYNC,
        "LARGEFILE": os.O_LARGEFILE,
        "APPEND": os.O_APPEND,
    }
    for name, flag in flags.items():
        fd = os.open(HELLO, os.O_RDONLY | flag)
        show(name, os.read(fd, 5))
        os.close(fd)


def case_o_creat_of_an_existing_file_reads():
    fd = os.open(HELLO, os.O_RDONLY | os.O_CREAT, 0o600)
    show("content", os.read(fd, 100))
    fails("EBADF", os.write, fd, b"x")


def case_o_creat_excl_of_existing_eexist():
    for name in (
        HELLO,
        f"{T}/text",
        f"{T}/links/to_file",
        f"{T}/links/dangling",
        f"{T}/links/loop_a",
    ):
        fails("EEXIST", os.open, name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def case_o_creat_of_a_directory_eisdir():
    fails("EISDIR", os.open, f"{T}/text", os.O_RDONLY | os.O_CREAT)
    fails("EISDIR", os.open, f"{T}/text", os.O_WRONLY)
    fails("EISDIR", os.open, f"{T}/text", os.O_RDWR)
    fails("EISDIR", os.open, f"{T}/nothing/", os.O_WRONLY | os.O_CREAT)


def case_o_path():
    fd = os.open(HELLO, os.O_PATH)
    fails("EBADF", os.read, fd, 1)
    fails("EBADF", os.lseek, fd, 0, os.SEEK_SET)
    show("fstat", os.fstat(fd).st_size)
    show("reopened", open(f"/proc/self/fd/{fd}").read())
    link = os.open(f"{T}/links/to_file", os.O_PATH | os.O_NOFOLLOW)
    show("link", oct(os.fstat(link).st_mode), os.readlink("", dir_fd=link))


def case_o_path_directory_as_dirfd():
    fd = os.open(f"{T}/text", os.O_PATH | os.O_DIRECTORY)
    inner = os.open("hello.txt", os.O_RDONLY, dir_fd=fd)
    show("content", os.read(inner, 100), os.stat("x", dir_fd=fd).st_size)
    fails("EBADF", os.listdir, fd)


def case_dir_fd():
    fd = os.open(f"{T}/hard", os.O_RDONLY)
    inner = os.open("../text/./hello.txt", os.O_RDONLY, dir_fd=fd)
    show("content", os.read(inner, 100))
    fails("ENOENT", os.open, "nothing", os.O_RDONLY, dir_fd=fd)
    fails("ENOTDIR", os.open, "x", os.O_RDONLY, dir_fd=inner)
    fails("EBADF", os.open, "x", os.O_RDONLY, dir_fd=1000)
    show("absolute ignores it", os.read(os.open(HELLO, os.O_RDONLY, dir_fd=1000), 5))


def case_dir_fd_outside_with_a_path_into_the_tree():
    fd = os.open(os.path.dirname(T), os.O_RDONLY)
    inner = os.open(f"{os.path.basename(T)}/text/hello.txt", os.O_RDONLY, dir_fd=fd)
    show("content", os.read(inner, 100))
    outside = os.open(O, os.O_RDONLY)
    show("through a link", os.read(os.open("dir/x", os.O_RDONLY, dir_fd=outside), 10))


def case_dot_dot_forms():
    for path in (
        f"{T}/text/../text/hello.txt",
        f"{T}/./text/.//hello.txt",
        f"{T}/text/sub/../../text/hello.txt",
        f"{T}/../{os.path.basename(T)}/text/hello.txt",
        f"//{T}/text//hello.txt",
        f"{T}/links/to_dir/../text/hello.txt",
        f"/proc/self/root{T}/text/hello.txt",
        f"/proc/self/cwd/../../{os.path.basename(T)}/text/hello.txt",
    ):
        show("content", open(path).read())
    fails("ENOENT", open, f"{T}/none/../text/hello.txt")
    fails("ENOTDIR", open, f"{HELLO}/../hello.txt")


def case_relative_after_chdir():
    os.chdir(f"{T}/text")
    show("cwd", os.getcwd(), os.getcwdb(), open("hello.txt").read(), open("../hard/one").read())
    os.chdir("..")
    show("cwd", os.getcwd(), sorted(os.listdir())[:3], os.path.exists("text/x"))
    os.chdir("..")
    show("outside", open(f"{os.path.basename(T)}/text/x").read())
    os.chdir(W)
    fails("ENOENT", open, "hello.txt")


def case_fchdir():
    fd = os.open(f"{T}/text/sub", os.O_RDONLY)
    os.fchdir(fd)
    show("cwd", os.getcwd(), open("inner.txt").read(), open("../x").read())
    fails("ENOTDIR", os.fchdir, os.open("inner.txt", os.O_RDONLY))
    fails("ENOTDIR", os.chdir, "inner.txt")
    fails("ENOENT", os.chdir, "nothing")
    fails("EBADF", os.fchdir, 777)


def case_lowest_free_number():
    first = os.open(HELLO, os.O_RDONLY)
    second = os.open("/dev/null", os.O_RDONLY)
    third = os.open(MID, os.O_RDONLY)
    show("consecutive", second - first, third - second)
    os.close(first)
    same("reused", os.open(BIG, os.O_RDONLY) == first, True)


def case_emfile():
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    held = []
    try:
        while True:
            held.append(os.open(f"{T}/many/f{len(held):05d}.dat", os.O_RDONLY))
    except OSError as error:
        same("errno", errno.errorcode[error.errno], "EMFILE")
    same("first and last", (held[0], held[-1], len(held) > 110), (3, 127, True))
    same("contents", all(os.read(fd, 10) == b"%d\n" % i for i, fd in enumerate(held)), True)
    os.close(held.pop())
    show("one again", os.read(os.open(HELLO, os.O_RDONLY), 5))
    fails("EMFILE", os.open, HELLO, os.O_RDONLY)


def case_a_thousand_open_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
    held = [open(f"{T}/many/f{i:05d}.dat", "rb") for i in range(1000)]
    same("contents", all(file.read() == b"%d\n" % i for i, file in enumerate(held)), True)
    same("highest", held[-1].fileno() < 1100, True)
    held += [open(f"{T}/many/f{i:05d}.dat", "rb", 0) for i in range(200)]
    same("again", held[-1].read(), b"199\n")


def case_not_inheritable():
    fd = os.open(HELLO, os.O_RDONLY)
    show("inheritable", os.get_inheritable(fd))
    os.set_inheritable(fd, True)
    show("inheritable", os.get_inheritable(fd))


def case_io_open_code_and_fileio():
    with io.open_code(HELLO) as file:
        show("open_code", file.read())
    with io.FileIO(HELLO, "r") as file:
        show("FileIO", file.read(), repr(file.mode))


def case_linecache_and_fileinput():
    import fileinput
    import linecache

    show("line", linecache.getline(LINES, 17))
    show("lines", [line for line in fileinput.input([HELLO, f"{T}/text/x"])])


def case_import_from_the_tree():
    sys.path.insert(0, f"{T}/scripts")
    import importlib.resources

    import package

    show("file", package.__file__, package.part.WHERE)
    show("resource", importlib.resources.files(package).joinpath("data.txt").read_text())


def case_import_from_a_zip():
    sys.path.insert(0, f"{T}/archives/files.zip")
    import module_in_zip

    show("value", module_in_zip.VALUE)


if __name__ == "__main__":
    run(globals())
