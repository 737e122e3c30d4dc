"""rename(2) of outputs: each rule, and what is left."""

import ctypes
import os
import shutil

from out_client import D, T, W, expect, facts, get, names, p, put, show, tell

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2


def renameat2(old, new, flags, old_fd=-100, new_fd=-100):
    if libc.renameat2(old_fd, os.fsencode(old), new_fd, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def case_file_to_a_new_name():
    put(p("a"))
    inode = os.stat(p("a")).st_ino
    tell("rename", os.rename, p("a"), p("b"))
    show("now", names(), get(p("b")), os.stat(p("b")).st_ino == inode)
    tell("old", os.stat, p("a"))


def case_file_over_a_file():
    put(p("a"), b"new")
    put(p("b"), b"old content")
    tell("rename", os.rename, p("a"), p("b"))
    show("now", names(), get(p("b")))


def case_file_over_an_open_file():
    put(p("a"), b"new")
    put(p("b"), b"old content")
    reader = os.open(p("b"), os.O_RDONLY)
    os.rename(p("a"), p("b"))
    show("reader", os.read(reader, 100), os.fstat(reader).st_size, os.fstat(reader).st_nlink)
    show("now", get(p("b")))


def case_file_over_a_directory():
    put(p("a"))
    os.mkdir(p("d"))
    tell("rename", os.rename, p("a"), p("d"))
    show("now", names())


def case_directory_over_a_file():
    put(p("a"))
    os.mkdir(p("d"))
    tell("rename", os.rename, p("d"), p("a"))
    show("now", names())


def case_directory_over_an_empty_directory():
    os.makedirs(p("d", "e"))
    put(p("d", "e", "f"))
    os.mkdir(p("empty"))
    tell("rename", os.rename, p("d"), p("empty"))
    show("now", names(), names(p("empty")), get(p("empty", "e", "f")))


def case_directory_over_a_full_directory():
    os.mkdir(p("d"))
    os.mkdir(p("full"))
    put(p("full", "f"))
    tell("rename", os.rename, p("d"), p("full"))
    tell("of itself", os.rename, p("full"), p("full"))
    show("now", names())


def case_directory_to_a_new_name():
    os.makedirs(p("d", "e", "g"))
    put(p("d", "f"), b"one")
    put(p("d", "e", "f"), b"two")
    os.symlink("f", p("d", "link"))
    tell("rename", os.rename, p("d"), p("moved"))
    show("now", names(), names(p("moved")), names(p("moved", "e")))
    show("content", get(p("moved", "f")), get(p("moved", "e", "f")), get(p("moved", "link")))
    tell("old", os.stat, p("d", "f"))
    tell("old again", os.mkdir, p("d"))
    show("old is empty", names(p("d")))


def case_directory_into_itself():
    os.makedirs(p("d", "e"))
    tell("rename", os.rename, p("d"), p("d", "e", "x"))
    tell("directly", os.rename, p("d"), p("d", "x"))
    tell("over its child", os.rename, p("d"), p("d", "e"))
    tell("child over parent", os.rename, p("d", "e"), p("d"))


def case_directory_of_a_directory_moves_up():
    os.makedirs(p("d", "e"))
    put(p("d", "e", "f"))
    tell("rename", os.rename, p("d", "e"), p("e"))
    show("now", names(), names(p("d")), get(p("e", "f")))


def case_between_directories():
    os.mkdir(p("d"))
    os.mkdir(p("e"))
    put(p("d", "f"))
    tell("rename", os.rename, p("d", "f"), p("e", "g"))
    tell("into sub", os.rename, p("e", "g"), p("sub", "h"))
    show("now", names(p("d")), names(p("e")), names(p("sub")), get(p("sub", "h")))


def case_same_name():
    put(p("a"))
    tell("file", os.rename, p("a"), p("a"))
    tell("another way", os.rename, p("a"), p("sub", "..", "a"))
    os.mkdir(p("d"))
    tell("directory", os.rename, p("d"), p("d"))
    show("now", names())


def case_missing_source():
    put(p("a"))
    tell("to new", os.rename, p("none"), p("b"))
    tell("to old", os.rename, p("none"), p("a"))
    tell("below missing", os.rename, p("none", "x"), p("b"))


def case_missing_target_directory():
    put(p("a"))
    tell("rename", os.rename, p("a"), p("none", "b"))
    show("now", names())


def case_through_a_file():
    put(p("a"))
    put(p("b"))
    tell("source", os.rename, p("a", "x"), p("c"))
    tell("target", os.rename, p("a"), p("b", "x"))


def case_empty_and_too_long():
    put(p("a"))
    tell("empty source", os.rename, "", p("b"))
    tell("empty target", os.rename, p("a"), "")
    tell("long", os.rename, p("a"), p("n" * 256))
    tell("longest", os.rename, p("a"), p("n" * 255))
    show("now", [len(name) for name in names()])


def case_noreplace():
    put(p("a"), b"a")
    put(p("b"), b"b")
    os.symlink("none", p("dangling"))
    tell("existing", renameat2, p("a"), p("b"), NOREPLACE)
    tell("dangling", renameat2, p("a"), p("dangling"), NOREPLACE)
    tell("itself", renameat2, p("a"), p("a"), NOREPLACE)
    tell("new", renameat2, p("a"), p("c"), NOREPLACE)
    tell("missing", renameat2, p("a"), p("c"), NOREPLACE)
    show("now", names(), get(p("b")), get(p("c")))


def case_exchange():
    put(p("a"), b"a")
    put(p("b"), b"b")
    tell("outputs", renameat2, p("a"), p("b"), EXCHANGE)
    tell("now", lambda: [get(p("a")), get(p("b"))])
    tell("missing", renameat2, p("a"), p("c"), EXCHANGE)


def case_odd_flags():
    put(p("a"))
    tell("both", renameat2, p("a"), p("b"), NOREPLACE | EXCHANGE)
    tell("unknown", renameat2, p("a"), p("b"), 0x100)
    show("now", names())


def case_trailing_slash():
    put(p("a"))
    os.mkdir(p("d"))
    tell("of a file", os.rename, p("a/"), p("b"))
    tell("to a new name", os.rename, p("a"), p("b/"))
    tell("over a file", os.rename, p("a"), p("given/"))
    tell("directory from", os.rename, p("d/"), p("e"))
    tell("directory to", os.rename, p("e"), p("g/"))
    show("now", names())


def case_dot_and_dotdot():
    os.mkdir(p("d"))
    for name in (".", "..", "d/.", "d/.."):
        tell(f"of {name}", os.rename, p(name), p("x"))
        tell(f"to {name}", os.rename, p("d"), p(name))
    show("now", names())


def case_symbolic_link():
    put(p("f"))
    os.symlink("f", p("link"))
    os.symlink("none", p("dangling"))
    tell("moves itself", os.rename, p("link"), p("moved"))
    tell("dangling", os.rename, p("dangling"), p("dangling2"))
    show("now", os.readlink(p("moved")), os.readlink(p("dangling2")), names())
    put(p("g"), b"g")
    tell("over a link", os.rename, p("g"), p("moved"))
    show("now", names(), get(p("moved")), get(p("f")))


def case_through_links_to_directories():
    os.mkdir(p("d"))
    os.symlink("d", p("link"))
    put(p("d", "f"))
    tell("through", os.rename, p("link", "f"), p("link", "g"))
    tell("out", os.rename, p("link", "g"), p("h"))
    tell("link with slash", os.rename, p("link/"), p("other"))
    show("now", names(), names(p("d")))


def case_with_directory_descriptors():
    os.mkdir(p("d"))
    put(p("d", "f"))
    here, there = os.open(D, os.O_RDONLY), os.open(p("d"), os.O_RDONLY | os.O_DIRECTORY)
    tell("out", os.rename, "f", "g", src_dir_fd=there, dst_dir_fd=here)
    tell("in", os.rename, "g", "h", src_dir_fd=here, dst_dir_fd=there)
    tell("inside", os.rename, "h", "i", src_dir_fd=there, dst_dir_fd=there)
    tell("up", os.rename, "../d/i", "../j", src_dir_fd=there, dst_dir_fd=there)
    show("now", names(), names(p("d")))


def case_while_open_for_reading():
    put(p("a"), b"content")
    with open(p("a"), "rb", buffering=0) as file:
        os.rename(p("a"), p("b"))
        show("read", file.read(), facts(file.fileno()))


def case_while_open_for_writing():
    with open(p("a"), "wb", buffering=0) as file:
        file.write(b"before ")
        tell("rename", os.rename, p("a"), p("b"))
        file.write(b"after")
        tell("own view of the old name", os.stat, p("a"))
        show("own view of the new name", os.stat(p("b")).st_size)
    show("now", names(), get(p("b")))


def case_checkpoint_again_and_again():
    for step in range(5):
        with open(p("model.tmp"), "wb") as file:
            file.write(b"step %d " % step * 1000)
        os.replace(p("model.tmp"), p("model.pt"))
        show("step", get(p("model.pt"))[:7], names())


def case_open_file_over_a_published_one():
    put(p("b"), b"old")
    with open(p("a"), "wb", buffering=0) as file:
        file.write(b"new")
        os.rename(p("a"), p("b"))
    show("now", names(), get(p("b")))


def case_attributes_move_along():
    put(p("a"))
    os.chmod(p("a"), 0o640)
    os.utime(p("a"), ns=(10**18, 2 * 10**18))
    os.rename(p("a"), p("b"))
    show("now", facts(p("b")), os.stat(p("b")).st_mtime_ns)


def case_deep_tree_moves():
    path = p("d0")
    for depth in range(1, 12):
        os.mkdir(path)
        put(path + "/f", b"%d" % depth)
        path += f"/d{depth}"
    os.mkdir(p("there"))
    tell("rename", os.rename, p("d0"), p("there", "d"))
    count = sum(len(files) for _, _, files in os.walk(p("there")))
    show("now", names(), count, get(p("there", "d", "d1", "d2", "f")))


def case_directory_with_open_files():
    os.mkdir(p("d"))
    with open(p("d", "f"), "wb", buffering=0) as file:
        file.write(b"one ")
        tell("rename", os.rename, p("d"), p("e"))
        file.write(b"two")
    show("now", names(), names(p("e")), get(p("e", "f")))


def case_into_and_out_of_the_tree():
    with open(f"{W}/outside", "w") as file:
        file.write("from outside")
    put(p("inside"))
    shutil.move(f"{W}/outside", p("moved_in"))
    shutil.move(p("inside"), f"{W}/moved_out")
    show("now", names(), get(p("moved_in")), get(f"{W}/moved_out"))
    os.unlink(f"{W}/moved_out")


def served_boundary():
    put(p("a"))
    with open(f"{W}/outside", "w") as file:
        file.write("x")
    expect("EXDEV", "in", os.rename, f"{W}/outside", p("b"))
    expect("EXDEV", "out", os.rename, p("a"), f"{W}/x")
    expect("EXDEV", "in over", os.rename, f"{W}/outside", p("a"))
    expect(["a", "given", "sub"], "now", names)
    os.unlink(f"{W}/outside")


def served_inputs_stay():
    put(p("a"))
    os.mkdir(p("d"))
    hello = f"{T}/text/hello.txt"
    expect("EROFS", "of an input", os.rename, hello, p("x"))
    expect("EROFS", "over an input", os.rename, p("a"), hello)
    expect("EROFS", "over an input link", os.rename, p("a"), f"{T}/links/to_file")
    expect("EROFS", "directory of inputs", os.rename, f"{T}/text", p("x"))
    expect("EROFS", "empty directory of inputs", os.rename, f"{T}/empty_dir", p("x"))
    expect("EROFS", "over a directory of inputs", os.rename, p("d"), f"{T}/empty_dir")
    expect("EROFS", "exchange", renameat2, p("a"), hello, EXCHANGE)
    expect("EEXIST", "noreplace", renameat2, p("a"), hello, NOREPLACE)
    expect(b"hello world\n", "content", get, hello)
