"""Metadata and listings from Python: os.*, pathlib, glob, and the errno of each failure."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import fnmatch
import glob
import os
import pathlib
import stat

from contrast_client import BIG, HELLO, MISSING, O, T, W, facts, fails, run, same, show

ROOT = pathlib.Path(T)


def relative(path):
    return os.path.relpath(path, T if isinstance(path, str) else os.fsencode(T))


def every_path():
    for folder, folders, files in os.walk(os.fsencode(T)):
        yield folder
        for name in folders + files:
            yield os.path.join(folder, name)


def case_stat_of_everything():
    for path in sorted(set(every_path())):
        show("lstat", relative(path), *facts(os.lstat(path)))


def case_stat_follows():
    for name in ("to_file", "to_dir", "via_dir", "up", "deep", "slash", "chain6"):
        show(name, *facts(os.stat(f"{T}/links/{name}")))
        show(name, *facts(os.stat(f"{T}/links/{name}", follow_symlinks=False)))


def case_stat_failures():
    for call in (os.stat, os.listdir, os.scandir, os.statvfs, os.chdir):
        fails("ENOENT", call, MISSING)
        fails("ENOENT", call, f"{T}/links/dangling")
        fails("ELOOP", call, f"{T}/links/loop_b")
        fails("ENOTDIR", call, f"{HELLO}/x")
    fails("ENOENT", os.lstat, MISSING)
    fails("ENOTDIR", os.lstat, f"{HELLO}/")
    fails("ENOTDIR", os.listdir, HELLO)
    fails("ENOTDIR", os.scandir, HELLO)
    fails("ELOOP", os.lstat, f"{T}/links/self/")
    show("the link itself", oct(os.lstat(f"{T}/links/self").st_mode))


def case_fstat_agrees_with_stat():
    for path in (HELLO, BIG, f"{T}/text", f"{T}/hard/two"):
        fd = os.open(path, os.O_RDONLY)
        same(path, os.fstat(fd)[:7] == os.stat(path)[:7], True)
        show("fstat", *facts(os.fstat(fd)))


def case_stat_dir_fd():
    fd = os.open(f"{T}/links", os.O_RDONLY)
    show("follow", *facts(os.stat("to_file", dir_fd=fd)))
    show("nofollow", *facts(os.stat("to_file", dir_fd=fd, follow_symlinks=False)))
    fails("ENOENT", os.stat, "none", dir_fd=fd)
    fails("ENOTDIR", os.stat, "x", dir_fd=os.open(HELLO, os.O_RDONLY))
    fails("EBADF", os.stat, "x", dir_fd=999)


def case_stat_by_number():
    fd = os.open(HELLO, os.O_RDONLY)
    show("stat(fd)", os.stat(fd).st_size, os.path.getsize(fd), os.path.exists(fd))


def case_stat_floats_and_ints():
    status = os.stat(HELLO)
    show(
        "times", status.st_mtime, status.st_mtime_ns, status[stat.ST_MTIME], os.path.getmtime(HELLO)
    )


def case_times_before_1970_and_after_2038():
    show("before", os.stat(f"{T}/bin/small.bin").st_mtime_ns)
    show("after", os.stat(f"{T}/bin/mid.bin").st_mtime_ns)


def case_inodes():
    numbers = {name: os.stat(f"{T}/hard/{name}").st_ino for name in ("one", "two", "sub/three")}
    same("one inode", len(set(numbers.values())), 1)
    seen = {entry.name: entry.inode() for entry in os.scandir(f"{T}/text")}
    same("scandir inode", all(os.stat(f"{T}/text/{n}").st_ino == i for n, i in seen.items()), True)
    same("not zero", 0 in seen.values(), False)
    same("dot dot", os.stat(f"{T}/text/..").st_ino == os.stat(T).st_ino, True)
    same("samefile", os.path.samefile(HELLO, f"{T}/links/to_file"), True)
    same("sameopenfile", os.path.sameopenfile(os.open(HELLO, 0), os.open(HELLO, 0)), True)
    same("one device", len({os.lstat(path).st_dev for path in every_path()}), 1)
    same("through a link", os.path.samefile(f"{O}/dir", f"{T}/text"), True)


def case_blocks_cover_the_size():
    status = os.stat(BIG)
    same("blocks", status.st_blocks * 512 >= status.st_size // 2, True)
    same("block size", status.st_blksize > 0, True)


def case_access():
    names = [
        "text",
        "text/x",
        "modes/m0000",
        "modes/m0111",
        "links/to_file",
        "links/dangling",
        "none",
        "text/x/y",
    ]
    for name in names:
        modes = (os.F_OK, os.R_OK, os.X_OK, os.R_OK | os.X_OK)
        show(name, [os.access(f"{T}/{name}", mode) for mode in modes])
        show(name, [os.access(f"{T}/{name}", mode, effective_ids=True) for mode in modes])
    show("nofollow", os.access(f"{T}/links/dangling", os.F_OK, follow_symlinks=False))
    fd = os.open(f"{T}/text", os.O_RDONLY)
    show("dir_fd", os.access("x", os.R_OK, dir_fd=fd), os.access("none", os.R_OK, dir_fd=fd))


def case_readlink():
    for name in sorted(os.listdir(f"{T}/links")):
        show(name, os.readlink(f"{T}/links/{name}"), os.readlink(os.fsencode(f"{T}/links/{name}")))
    fails("EINVAL", os.readlink, HELLO)
    fails("EINVAL", os.readlink, f"{T}/text")
    fails("ENOENT", os.readlink, MISSING)
    fails("ENOTDIR", os.readlink, f"{HELLO}/x")
    show("dir_fd", os.readlink("to_file", dir_fd=os.open(f"{T}/links", os.O_RDONLY)))


def case_realpath():
    for name in (
        "to_file",
        "to_dir/sub/..",
        "deep",
        "dangling",
        "loop_a",
        "up/up",
        "outside",
        "chain20",
    ):
        show(name, os.path.realpath(f"{T}/links/{name}"))
    show("outside link", os.path.realpath(f"{O}/dir/x"), os.path.realpath(f"{O}/tree"))


def case_path_predicates():
    for name in (
        "text",
        "text/x",
        "links/to_dir",
        "links/to_file",
        "links/dangling",
        "none",
        "links/self",
    ):
        path = f"{T}/{name}"
        kinds = (
            os.path.exists,
            os.path.lexists,
            os.path.isfile,
            os.path.isdir,
            os.path.islink,
            os.path.ismount,
        )
        show(name, [kind(path) for kind in kinds])


def case_listdir():
    for name in ("", "/text", "/names", "/links", "/empty_dir", "/modes", "/links/to_dir"):
        show(name, sorted(os.listdir(T + name)), sorted(os.listdir(os.fsencode(T + name))))


def case_listdir_of_many():
    names = os.listdir(f"{T}/many")
    same("count", (len(names), len(set(names))), (1500, 1500))


def case_listdir_of_fd():
    fd = os.open(f"{T}/text", os.O_RDONLY)
    show("listdir", sorted(os.listdir(fd)), sorted(os.listdir(fd)))
    with os.scandir(fd) as entries:
        show(
            "scandir",
            sorted((e.name, e.is_file(), e.stat().st_size) for e in entries if e.is_file()),
        )
    fails("ENOTDIR", os.listdir, os.open(HELLO, os.O_RDONLY))


def case_scandir():
    for folder in ("/text", "/links", "/names", "/modes"):
        with os.scandir(T + folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                kind = (
                    entry.is_dir(follow_symlinks=False),
                    entry.is_file(follow_symlinks=False),
                    entry.is_symlink(),
                )
                show(entry.name, entry.path, kind, *facts(entry.stat(follow_symlinks=False)))


def case_scandir_follows():
    with os.scandir(f"{T}/links") as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.name in ("to_file", "to_dir", "dangling", "up"):
                show(entry.name, entry.is_dir(), entry.is_file())


def case_scandir_left_half_way():
    entries = os.scandir(f"{T}/many")
    next(entries)
    entries.close()
    show("again", sum(1 for _ in os.scandir(f"{T}/many")))


def case_nested_scandirs():
    def count(path):
        return sum(
            count(e.path) if e.is_dir(follow_symlinks=False) else 1 for e in os.scandir(path)
        )

    show("files", count(T))


def case_walk():
    for folder, folders, files in sorted(os.walk(T)):
        show(folder, sorted(folders), len(files))


def case_walk_bottom_up_and_followlinks():
    show("bottom up", sorted(folder for folder, _, _ in os.walk(f"{T}/deep", topdown=False)))
    show("follow", sorted(f for f, _, _ in os.walk(f"{T}/links/to_dir", followlinks=True)))
    os.walk(MISSING, onerror=lambda error: show("error", error.errno))


def case_fwalk():
    for folder, folders, files, fd in os.fwalk(f"{T}/text"):
        show(folder, sorted(folders), sorted((n, os.stat(n, dir_fd=fd).st_size) for n in files))
    fd = os.open(T, os.O_RDONLY)
    show("dir_fd", sorted((f, sorted(n)) for f, _, n, _ in os.fwalk("deep", dir_fd=fd)))


def case_pathlib_iterdir_and_glob():
    show("iterdir", sorted(p.name for p in (ROOT / "text").iterdir()))
    show("glob", sorted(str(p) for p in ROOT.glob("*/*.txt")))
    show("rglob", sorted(str(p) for p in ROOT.rglob("here.txt")))
    show("doublestar", sorted(str(p) for p in ROOT.glob("img/**/*.png")))


def case_pathlib_reads():
    path = ROOT / "text" / "hello.txt"
    show(
        "read",
        path.read_text(),
        path.read_bytes(),
        path.exists(),
        path.is_file(),
        path.owner() != "",
    )
    show("stat", *facts(path.stat()), *facts((ROOT / "links" / "to_file").lstat()))
    show(
        "resolve", (ROOT / "links" / "deep").resolve(), (ROOT / "links" / "to_dir" / "..").resolve()
    )
    fails("ENOENT", (ROOT / "none").read_text)
    fails("ENOENT", (ROOT / "none").resolve, strict=True)
    show("readlink", os.readlink(ROOT / "links" / "to_file"), (ROOT / "links" / "up").samefile(T))


def case_glob_module():
    show("glob", sorted(glob.glob(f"{T}/text/*.txt")), glob.glob(f"{T}/none/*"))
    show(
        "recursive",
        len(glob.glob(f"{T}/[a-i]*/**", recursive=True)),
        sorted(glob.glob(f"{T}/deep/**/here.txt", recursive=True)),
    )
    show("hidden", sorted(glob.glob(f"{T}/names/.*")), sorted(glob.glob(f"{T}/*/sub/")))
    show("filter", sorted(fnmatch.filter(os.listdir(f"{T}/bin"), "p*.bin")))


def case_glob_relative_and_root_dir():
    os.chdir(T)
    show("relative", sorted(glob.glob("*/sub/*")), sorted(glob.glob("text/[hx]*")))
    show("root_dir", sorted(glob.glob("*.png", root_dir=f"{T}/img/cat")))
    fd = os.open(f"{T}/img", os.O_RDONLY)
    show("dir_fd", sorted(glob.glob("*/*.png", dir_fd=fd)))


def case_extended_attributes():
    show(
        "listxattr", os.listxattr(HELLO), os.listxattr(f"{T}/text"), os.listxattr(os.open(HELLO, 0))
    )
    show("link", os.listxattr(f"{T}/links/dangling", follow_symlinks=False))
    fails("ENODATA", os.getxattr, HELLO, "user.none")
    fails("ENODATA", os.getxattr, os.open(HELLO, 0), "user.none")
    fails("ENODATA", os.getxattr, HELLO, "system.posix_acl_access")
    fails("ENOENT", os.listxattr, MISSING)
    fails("ENOENT", os.getxattr, MISSING, "user.x")


def case_statvfs():
    for target in (T, HELLO, os.open(HELLO, os.O_RDONLY)):
        same("name limit", os.statvfs(target).f_namemax, 255)
        same("block size", os.statvfs(target).f_bsize > 0, True)


def case_pathconf():
    for target in (T, HELLO, os.open(HELLO, os.O_RDONLY)):
        show("limits", os.pathconf(target, "PC_NAME_MAX"), os.pathconf(target, "PC_PATH_MAX"))
    fails("ENOENT", os.pathconf, MISSING, "PC_NAME_MAX")


def case_outside_links():
    show("listing", sorted(os.listdir(f"{O}/dir")), sorted(os.listdir(f"{O}/tree/hard")))
    show(
        "stat",
        *facts(os.stat(f"{O}/file")),
        os.path.islink(f"{O}/file"),
        os.path.exists(f"{O}/missing"),
    )
    os.chdir(f"{O}/dir")
    show("cwd", os.getcwd(), open("x").read(), sorted(os.listdir(".."))[:4])


def case_new_outside_link_is_noticed():
    fails("ENOENT", open, f"{W}/late/x")
    os.symlink(f"{T}/text", f"{W}/late")
    show("content", open(f"{W}/late/x").read(), os.stat(f"{W}/late/hello.txt").st_size)


def case_names_that_only_begin_like_the_prefix():
    fails("ENOENT", os.stat, T + "x")
    fails("ENOENT", os.stat, T + ".txt/text")
    sibling = T + "-sibling"
    fails("ENOENT", os.listdir, sibling)
    show("parent lists the tree", os.path.basename(T) in os.listdir(os.path.dirname(T)))


def case_root_of_the_tree():
    show(
        "trailing slashes",
        sorted(os.listdir(T + "/")) == sorted(os.listdir(T + "//.")),
        os.path.isdir(T + "/."),
    )
    show("stat", *facts(os.stat(T)), *facts(os.stat(T + "/text/..")))


if __name__ == "__main__":
    run(globals())
