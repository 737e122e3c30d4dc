"""What means nothing under a mount, and watches: what FanStore says to each."""

import ctypes
import os
import select
import struct

from out_client import D, T, W, expect, p, put

LIBC = ctypes.CDLL(None, use_errno=True)
INPUT, LINK, FOLDER, NONE = f"{T}/text/hello.txt", f"{T}/links/to_file", f"{T}/text", f"{T}/none"
IN_MODIFY, IN_DONT_FOLLOW, IN_ONLYDIR = 0x2, 0x02000000, 0x01000000


def call(name, *arguments):
    """A call of libc's by its name: its result, or OSError."""
    given = [a.encode() if isinstance(a, str) else a for a in arguments]
    ctypes.set_errno(0)
    result = getattr(LIBC, name)(*given)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def each(label, errno, name, *arguments):
    """A call with PATH among its arguments: of an input, a directory, an output; and of nothing."""
    outside = os.path.join(W, "into")
    if not os.path.lexists(outside):
        os.symlink(FOLDER, outside)
    for path in (INPUT, FOLDER, T, put(p("f")), D, outside):
        expect(errno, label, call, name, *(path if a == "PATH" else a for a in arguments))
    expect("ENOENT", label, call, name, *(NONE if a == "PATH" else a for a in arguments))


def served_roots_and_mounts():
    each("chroot", "ENOTSUP", "chroot", "PATH")
    each("mount on", "ENOTSUP", "mount", "none", "PATH", "tmpfs", 0, None)
    each("mount of", "ENOTSUP", "mount", "PATH", W, None, 4096, None)
    each("umount", "EINVAL", "umount", "PATH")
    each("umount2", "EINVAL", "umount2", "PATH", 8)
    each("pivot_root", "ENOTSUP", "pivot_root", "PATH", W)
    each("put old", "ENOTSUP", "pivot_root", W, "PATH")


def served_new_mount_calls():
    each("open_tree", "ENOTSUP", "open_tree", -100, "PATH", 0)
    each("move_mount of", "ENOTSUP", "move_mount", -100, "PATH", -100, W, 0)
    each("move_mount to", "ENOTSUP", "move_mount", -100, W, -100, "PATH", 0)
    each("fspick", "ENOTSUP", "fspick", -100, "PATH", 0)
    each("mount_setattr", "ENOTSUP", "mount_setattr", -100, "PATH", 0, bytes(32), 32)


def served_accounts_and_swaps():
    each("acct", "ENOTSUP", "acct", "PATH")
    each("swapon", "ENOTSUP", "swapon", "PATH", 0)
    each("swapoff", "EINVAL", "swapoff", "PATH")
    each("quotactl", "ENOTBLK", "quotactl", 0x80000700, "PATH", 0, bytes(100))


def served_handles():
    handle = struct.pack("Ii", 100, 0) + bytes(100)
    each("handle", "ENOTSUP", "name_to_handle_at", -100, "PATH", handle, bytes(8), 0x400)
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


def served_watches_of_what_changes():
    watcher = call("inotify_init1", 0)
    for path in (FOLDER, T, D, put(p("f"))):
        expect("ENOTSUP", "watch", call, "inotify_add_watch", watcher, path, IN_MODIFY)
    expect("ENOTSUP", "mark", call, "fanotify_mark", watcher, 1, 2, -100, INPUT)
    expect(1, "outside", call, "inotify_add_watch", watcher, W, IN_MODIFY)


def served_pages_do_not_move():
    with open(f"{T}/text/sub/inner.txt", "rb") as file:
        LIBC.mmap.restype = ctypes.c_void_p
        arguments = (None, ctypes.c_size_t(4096), 1, 1, file.fileno(), ctypes.c_long(0))
        at = ctypes.c_void_p(LIBC.mmap(*arguments))
        expect("EINVAL", "move", call, "remap_file_pages", at, ctypes.c_size_t(4096), 0,
               ctypes.c_size_t(1), 0)  # fmt: skip
