"""What means nothing under a mount, and watches: what FanStore says to each."""

import ctypes
import os
import select
import struct

from out_client import D, T, W, expect, p, put, show

LIBC = ctypes.CDLL(None, use_errno=True)
INPUT, LINK, FOLDER, NONE = f"{T}/text/hello.txt", f"{T}/links/to_file", f"{T}/text", f"{T}/none"
IN_MODIFY, IN_DONT_FOLLOW, IN_ONLYDIR = 0x2, 0x02000000, 0x01000000
IN_CREATE, IN_DELETE = 0x100, 0x200


def call(name, *arguments):
    """A call of libc's by its name: its result, or OSError."""
    given = [a.encode() if isinstance(a, str) else a for a in arguments]
    ctypes.set_errno(0)
    result = getattr(LIBC, name)(*given)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def fail_with(code):
    raise OSError(code, os.strerror(code))


def each(label, errno, name, *arguments):
    """A call with PATH among its arguments: of an input, a directory, an output; and of nothing."""
    outside = os.path.join(W, "into")
    if not os.path.lexists(outside):
        os.symlink(FOLDER, outside)
    for path in (INPUT, FOLDER, T, put(p("f")), D, outside):
        expect(errno, label, call, name, *(path if a == "PATH" else a for a in arguments))
    expect("ENOENT", label, call, name, *(NONE if a == "PATH" else a for a in arguments))


def served_libc_walks():
    LIBC.fts_open.restype = ctypes.c_void_p
    LIBC.fts_open.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    for path, errno in ((FOLDER, "ENOTSUP"), (INPUT, "ENOTSUP"), (D, "ENOTSUP"), (W, 0), (NONE, 0)):
        paths = (ctypes.c_char_p * 2)(path.encode(), None)
        ctypes.set_errno(0)
        walk = LIBC.fts_open(paths, 0x10, None)
        expect(errno == 0, "opened", lambda walk=walk: walk is not None)
        if errno:
            expect(errno, "why", fail_with, ctypes.get_errno())
        else:
            LIBC.fts_close(ctypes.c_void_p(walk))


def served_handles():
    handle = struct.pack("Ii", 100, 0) + bytes(100)
    for path in (INPUT, FOLDER, T):
        expect("ENOTSUP", "handle", call, "name_to_handle_at", -100, path, handle, bytes(8), 0x400)
    fd = os.open(INPUT, os.O_RDONLY)
    expect("ENOTSUP", "of it", call, "name_to_handle_at", fd, "", handle, bytes(8), 0x1000)
    expect("ENOENT", "of none", call, "name_to_handle_at", fd, "", handle, bytes(8), 0)


def served_watches_of_inputs_are_silent():
    watcher = call("inotify_init1", os.O_NONBLOCK)
    first = call("inotify_add_watch", watcher, INPUT, IN_MODIFY)
    expect(first, "again", call, "inotify_add_watch", watcher, INPUT, IN_MODIFY)
    expect(first, "by a link", call, "inotify_add_watch", watcher, LINK, IN_MODIFY)
    link = call("inotify_add_watch", watcher, LINK, IN_MODIFY | IN_DONT_FOLLOW)
    expect(True, "of the link itself", lambda: link != first)
    other = call("inotify_add_watch", watcher, f"{T}/text/sub/inner.txt", 0xFFF)
    expect(True, "of another", lambda: other not in (first, link))
    with open(INPUT, "rb") as file:
        file.read()
    expect([], "events", lambda: select.select([watcher], [], [], 0.05)[0])
    expect(0, "taken away", call, "inotify_rm_watch", watcher, first)
    expect("EINVAL", "once more", call, "inotify_rm_watch", watcher, first)
    expect("ENOTDIR", "as a directory", call, "inotify_add_watch", watcher, INPUT, IN_ONLYDIR | 2)
    expect("ENOENT", "of nothing", call, "inotify_add_watch", watcher, NONE, IN_MODIFY)


def served_marks():
    watcher = call("inotify_init1", 0)
    expect("ENOTSUP", "mark", call, "fanotify_mark", watcher, 1, 2, -100, INPUT)


def case_watches():
    """What happens is told, in directories with inputs, too."""
    watcher = call("inotify_init1", os.O_NONBLOCK)
    os.mkdir(p("d"))
    for path in (D, p("d"), put(p("f"))):
        show("watch", call("inotify_add_watch", watcher, path, IN_MODIFY | IN_CREATE | IN_DELETE))
    put(p("f"), b"more", os.O_WRONLY | os.O_APPEND)
    put(p("d", "new"))
    put(p("g"), b"")
    os.unlink(p("g"))
    events, at = os.read(watcher, 4096), 0
    while at < len(events):
        watch, mask, _, length = struct.unpack_from("iIII", events, at)
        name = events[at + 16 : at + 16 + length].rstrip(b"\0")
        show("event", watch, mask, name)
        at += 16 + length


def served_pages_do_not_move():
    with open(f"{T}/text/sub/inner.txt", "rb") as file:
        LIBC.mmap.restype = ctypes.c_void_p
        arguments = (None, ctypes.c_size_t(4096), 1, 1, file.fileno(), ctypes.c_long(0))
        at = ctypes.c_void_p(LIBC.mmap(*arguments))
        expect("EINVAL", "move", call, "remap_file_pages", at, ctypes.c_size_t(4096), 0,
               ctypes.c_size_t(1), 0)  # fmt: skip
