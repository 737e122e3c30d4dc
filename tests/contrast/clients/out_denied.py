"""Another user than root: mode bits of outputs, and of the directories they are made in."""

import os
import shutil
import time

from out_client import D, Other, T, W, expect, facts, get, names, opened, p, put, result, show, tell

WRITE = os.O_WRONLY | os.O_CREAT


def case_files_of_each_mode():
    put(p("f"))
    for mode in (0o000, 0o200, 0o400, 0o600, 0o111, 0o044):
        os.chmod(p("f"), mode)
        tell("read", opened, p("f"))
        tell("write", opened, p("f"), os.O_WRONLY)
        tell("both", opened, p("f"), os.O_RDWR)
        tell("cut", opened, p("f"), os.O_RDONLY | os.O_TRUNC)
        tell("create", opened, p("f"), WRITE)
        tell("exclusive", opened, p("f"), WRITE | os.O_EXCL)
        tell("path", opened, p("f"), os.O_PATH)
        tell("truncate", os.truncate, p("f"), 3)
        show("access", [os.access(p("f"), how) for how in (os.R_OK, os.W_OK, os.X_OK)])
        tell("stat", facts, p("f"))
    os.chmod(p("f"), 0o600)
    show("now", get(p("f")))


def case_directory_without_w():
    os.makedirs(p("d", "e"))
    put(p("d", "f"))
    os.symlink("f", p("d", "link"))
    put(p("g"))
    os.chmod(p("d"), 0o555)
    tell("create", opened, p("d", "new"), WRITE)
    tell("open", opened, p("d", "f"), WRITE)
    tell("exclusive", opened, p("d", "f"), WRITE | os.O_EXCL)
    tell("mkdir", os.mkdir, p("d", "new"))
    tell("mkdir existing", os.mkdir, p("d", "e"))
    tell("symlink", os.symlink, "f", p("d", "new"))
    tell("symlink existing", os.symlink, "f", p("d", "f"))
    tell("mknod", os.mknod, p("d", "new"))
    tell("unlink", os.unlink, p("d", "f"))
    tell("unlink a link", os.unlink, p("d", "link"))
    tell("unlink missing", os.unlink, p("d", "none"))
    tell("rmdir", os.rmdir, p("d", "e"))
    tell("rename out", os.rename, p("d", "f"), p("h"))
    tell("rename in", os.rename, p("g"), p("d", "h"))
    tell("rename inside", os.rename, p("d", "f"), p("d", "h"))
    tell("rename over", os.rename, p("g"), p("d", "f"))
    tell("chmod", os.chmod, p("d", "f"), 0o640)
    tell("utime", os.utime, p("d", "f"))
    show("access", os.access(p("d"), os.W_OK), os.access(p("d"), os.X_OK))
    show("now", names(p("d")), names())
    os.chmod(p("d"), 0o755)


def case_directory_without_x():
    os.makedirs(p("d", "e"))
    put(p("d", "f"))
    os.chmod(p("d"), 0o666)
    tell("stat", os.stat, p("d", "f"))
    tell("stat missing", os.stat, p("d", "none"))
    tell("open", opened, p("d", "f"))
    tell("create", opened, p("d", "new"), WRITE)
    tell("below", os.stat, p("d", "e", "x"))
    tell("unlink", os.unlink, p("d", "f"))
    tell("rename", os.rename, p("d", "f"), p("g"))
    tell("chdir", os.chdir, p("d"))
    tell("list", names, p("d"))
    tell("dotdot", os.stat, p("d", "..", "given"))
    os.chmod(p("d"), 0o755)


def case_directory_without_r():
    os.mkdir(p("d"))
    put(p("d", "f"))
    os.chmod(p("d"), 0o311)
    tell("list", names, p("d"))
    tell("open directory", opened, p("d"))
    tell("path", opened, p("d"), os.O_PATH)
    tell("open", opened, p("d", "f"))
    tell("create", opened, p("d", "new"), WRITE)
    os.chmod(p("d"), 0o755)
    show("now", names(p("d")))


def case_new_file_without_rights():
    fd = os.open(p("f"), os.O_RDWR | os.O_CREAT, 0)
    os.write(fd, b"x")
    tell("again", opened, p("f"))
    os.close(fd)
    tell("read", get, p("f"))
    show("it", facts(p("f")))
    fd = os.open(p("g"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    os.write(fd, b"content")
    os.close(fd)
    tell("write", opened, p("g"), os.O_WRONLY)
    tell("read", get, p("g"))


def served_directory_of_another():
    """Datasets are often someone else's: new names may lie beside inputs all the same."""
    for folder in (T, f"{T}/text"):
        new = f"{folder}/of_nobody"
        expect(new, "create", put, new)
        expect(True, "access", os.access, folder, os.W_OK)
        expect(None, "unlink", os.unlink, new)


def case_owners():
    put(p("f"))
    tell("give away", os.chown, p("f"), 0, -1)
    tell("to a group", os.chown, p("f"), -1, 12)
    tell("own", os.chown, p("f"), os.getuid(), os.getgid())
    fd = os.open(p("f"), os.O_RDONLY)
    tell("descriptor", os.fchown, fd, 0, 0)
    show("it", facts(p("f")))
    os.mkdir(p("d"))
    show("directory", facts(p("d")))


def case_set_id_bits():
    put(p("f"))
    os.chmod(p("f"), 0o6755)
    show("set", facts(p("f")))
    with open(p("f"), "ab", buffering=0) as file:
        file.write(b"more")
    show("written", facts(p("f")))
    os.chmod(p("f"), 0o6755)
    os.truncate(p("f"), 2)
    show("truncated", facts(p("f")))


def case_copies_of_read_only_files():
    put(p("f"))
    os.chmod(p("f"), 0o444)
    shutil.copy(p("f"), p("g"))
    tell("over", shutil.copy, p("f"), p("g"))
    os.replace(put(p("h"), b"new"), p("g"))
    show("now", get(p("g")), facts(p("g")), facts(p("f")))
    os.unlink(p("f"))
    shutil.copy2(p("given"), p("f"))
    show("now", names())


def case_read_only_tree_is_removed():
    os.makedirs(p("d", "e"))
    put(p("d", "e", "f"))
    os.chmod(p("d", "e"), 0o555)
    tell("rmtree", shutil.rmtree, p("d"))
    show("left", names(p("d", "e")))
    os.chmod(p("d", "e"), 0o755)
    tell("rmtree", shutil.rmtree, p("d"))
    show("now", names())


def case_read_only_tree_is_left():
    """As tar and cp -a make it of such a tree: the modes of directories come last."""
    os.makedirs(p("d", "e"))
    put(p("d", "e", "f"))
    put(p("d", "g"))
    os.chmod(p("d", "e", "f"), 0o444)
    os.chmod(p("d", "e"), 0o555)
    os.chmod(p("d"), 0o500)
    show("now", names(p("d")), names(p("d", "e")))


def case_read_only_directory_is_used_again():
    os.makedirs(p("d", "e"))
    put(p("d", "f"))
    os.chmod(p("d"), 0o555)
    time.sleep(0.5)  # what was made may be in the output directory by now
    os.chmod(p("d"), 0o755)
    put(p("d", "g"))
    os.unlink(p("d", "f"))
    os.rename(p("d", "e"), p("e"))
    os.chmod(p("d"), 0o555)
    show("now", names(), names(p("d")))


def case_files_without_rights_are_left():
    for mode in (0o000, 0o200, 0o444, 0o100):
        put(p(f"f{mode:o}"))
        os.chmod(p(f"f{mode:o}"), mode)
    os.mkdir(p("d"))
    put(p("d", "f"))
    os.chmod(p("d"), 0o000)
    show("now", names())


def case_others_of_the_same_user():
    other = Other()
    put(p("f"))
    os.chmod(p("f"), 0o400)
    other.tell("read", f"get({p('f')!r})")
    other.tell("write", f"opened({p('f')!r}, os.O_WRONLY)")
    other.end()


def case_times_of_others():
    for path in (f"{T}/text/hello.txt", f"{T}/text"):
        found = result(os.utime, path, ns=(1, 2)), result(os.chmod, path, 0o600)
        show("refused", all(answer in ("EPERM", "EROFS", "EACCES") for answer in found))
    show("own directory", os.path.realpath(D) == D, os.access(W, os.W_OK))
