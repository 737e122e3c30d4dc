"""Whole files through the standard library: shutil, archives, compressed files, configuration."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import bz2
import csv
import filecmp
import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile

from contrast_client import BIG, HELLO, LINES, MID, MISSING, T, W, fails, run, same, show


def case_shutil_copies():
    show("copy", os.path.basename(shutil.copy(MID, W)))
    show("copy2", os.stat(shutil.copy2(LINES, f"{W}/lines")).st_mtime_ns)
    show("copyfile", os.path.getsize(shutil.copyfile(BIG, f"{W}/big")))
    shutil.copymode(f"{T}/modes/m0755", f"{W}/lines")
    shutil.copystat(f"{T}/modes/m0600", f"{W}/big")
    show("stat", oct(os.stat(f"{W}/lines").st_mode), os.stat(f"{W}/big").st_mtime_ns)


def case_shutil_copy_links():
    shutil.copy(f"{T}/links/to_file", f"{W}/link", follow_symlinks=False)
    show("link", os.readlink(f"{W}/link"))
    shutil.copy(f"{T}/links/to_file", f"{W}/followed")
    fails("ENOENT", shutil.copy, f"{T}/links/dangling", W)
    fails("EISDIR", shutil.copyfile, f"{T}/text", f"{W}/x")


def case_shutil_copyfileobj():
    with open(BIG, "rb") as source, open(f"{W}/out", "wb") as target:
        shutil.copyfileobj(source, target, 1000)


def case_shutil_copytree():
    shutil.copytree(f"{T}/text", f"{W}/text")
    shutil.copytree(f"{T}/links", f"{W}/links", symlinks=True)
    shutil.copytree(f"{T}/names", f"{W}/names", copy_function=shutil.copy)
    show("copied", sorted(os.listdir(f"{W}/text")))


def case_shutil_copytree_ignores():
    shutil.copytree(
        T, f"{W}/all", symlinks=True, ignore=shutil.ignore_patterns("many", "*.bin", "modes")
    )
    show("names", sorted(os.listdir(f"{W}/all")))


def case_shutil_copytree_dangling():
    try:
        shutil.copytree(f"{T}/links", f"{W}/links", ignore=shutil.ignore_patterns("up"))
    except shutil.Error as error:
        show("errors", sorted((source, reason) for source, _, reason in error.args[0]))


def case_shutil_move_out_copies_then_fails():
    try:
        shutil.copy2(HELLO, f"{W}/moved")
    finally:
        show("still there", open(HELLO).read())


def case_shutil_which_and_disk_usage():
    show(
        "which",
        shutil.which("hello.sh", path=f"{T}/scripts"),
        shutil.which("not_executable.sh", path=f"{T}/scripts"),
    )
    show("usage", shutil.disk_usage(T).total > 0)


def case_shutil_make_archive():
    name = shutil.make_archive(f"{W}/packed", "tar", f"{T}/hard")
    show("members", sorted(tarfile.open(name).getnames()))
    os.unlink(name)
    shutil.unpack_archive(f"{T}/archives/files.zip", f"{W}/unpacked")


def case_filecmp():
    shutil.copytree(f"{T}/text", f"{W}/text")
    compared = filecmp.dircmp(f"{T}/text", f"{W}/text")
    show(
        "dircmp",
        compared.left_only,
        compared.right_only,
        sorted(compared.same_files),
        compared.diff_files,
    )
    show("cmp", filecmp.cmp(MID, BIG, shallow=False), filecmp.cmp(MID, MID, shallow=False))


def case_zipfile():
    with zipfile.ZipFile(f"{T}/archives/files.zip") as archive:
        show("names", archive.namelist(), archive.testzip())
        show("member", hashlib.md5(archive.read("dir/m3.txt")).hexdigest())
        with archive.open("dir/m2.txt") as member:
            show("part", member.read(20))
    show("is zip", zipfile.is_zipfile(HELLO), zipfile.is_zipfile(f"{T}/archives/files.zip"))


def case_zipfile_open_file_object():
    with open(f"{T}/archives/files.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        archive.extractall(W)


def case_zipfile_writes_inputs():
    with zipfile.ZipFile(f"{W}/out.zip", "w") as archive:
        archive.write(HELLO, "hello.txt")
        archive.write(f"{T}/bin/page.bin", "page.bin")
    show(
        "names",
        zipfile.ZipFile(f"{W}/out.zip").namelist(),
        zipfile.ZipFile(f"{W}/out.zip").testzip(),
    )


def case_tarfile():
    for name in ("files.tar", "files.tar.gz"):
        with tarfile.open(f"{T}/archives/{name}") as archive:
            show(name, archive.getnames(), archive.extractfile("dir/m4.txt").read(40))
            show("seek back", archive.extractfile("dir/m1.txt").read(20))


def case_tarfile_adds_inputs():
    with tarfile.open(f"{W}/out.tar", "w") as archive:
        archive.add(f"{T}/hard", "hard")
        archive.add(f"{T}/links/dangling", "dangling")
    for member in sorted(tarfile.open(f"{W}/out.tar").getmembers(), key=lambda m: m.name):
        show(
            member.name,
            member.size,
            oct(member.mode),
            member.mtime,
            member.linkname if member.issym() else "",
        )
    os.unlink(f"{W}/out.tar")


def case_compressed_files():
    expected = open(LINES, "rb").read()
    for module, name in ((gzip, "gz"), (bz2, "bz2"), (lzma, "xz")):
        with module.open(f"{T}/archives/text.{name}", "rb") as file:
            same(name, file.read() == expected, True)
            file.seek(1000)
            show("seek", file.read(30))


def case_gzip_text_lines():
    with gzip.open(f"{T}/archives/text.gz", "rt") as file:
        show("line", [line for line, _ in zip(file, range(3), strict=False)])


def case_csv_json_configparser():
    with open(f"{T}/text/numbers.txt", newline="") as file:
        show("csv", list(csv.reader(file, delimiter=" "))[7])


def case_hashlib_of_a_file():
    with open(BIG, "rb") as file:
        show("sha", hashlib.sha256(file.read()).hexdigest())
    if hasattr(hashlib, "file_digest"):
        with open(BIG, "rb") as file:
            hashlib.file_digest(file, "sha256")


def case_tempfile_is_untouched():
    with tempfile.NamedTemporaryFile(dir=W) as file:
        file.write(open(MID, "rb").read())
        file.flush()
        show("size", os.path.getsize(file.name))
    with tempfile.TemporaryFile(dir=W) as file:
        shutil.copyfileobj(open(HELLO, "rb"), file)
        file.seek(0)
        show("temporary", file.read())


def case_links_made_outside():
    os.symlink(HELLO, f"{W}/link")
    show(
        "read",
        open(f"{W}/link").read(),
        os.stat(f"{W}/link").st_size,
        os.path.samefile(HELLO, f"{W}/link"),
    )
    fails("ENOENT", shutil.copy, MISSING, W)


def case_sqlite_reads():
    import sqlite3

    fails_to_open = None
    try:
        sqlite3.connect(f"file:{HELLO}?mode=ro&immutable=1", uri=True).execute(
            "select * from sqlite_master"
        )
    except sqlite3.DatabaseError as error:
        fails_to_open = str(error)
    show("not a database", fails_to_open)


def case_tokenize_and_mimetypes():
    import mimetypes
    import tokenize

    with tokenize.open(f"{T}/scripts/main.py") as file:
        show("tokenize", file.encoding, file.read())
    show("type", mimetypes.guess_type(f"{T}/img/cat/0.png"))


if __name__ == "__main__":
    run(globals())
