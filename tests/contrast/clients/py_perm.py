"""Another user than root: mode bits are honoured. Each case gives its rights up first."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import os
import stat
import subprocess

from contrast_client import HELLO, T, W, fails, run, show

NOBODY = 65534
MODES = f"{T}/modes"


def become(uid=NOBODY, gid=NOBODY, groups=()):
    """A process reaches the packs of its job as the job's user: it does so before it changes."""
    for folder, _, names in os.walk(T):
        for name in names:
            if os.path.isfile(f"{folder}/{name}"):
                open(f"{folder}/{name}", "rb").close()
    os.setgroups(list(groups))
    os.setgid(gid)
    os.setuid(uid)


def case_open_each_mode():
    become()
    for name in ("m0444", "m0755", "m4755", "m2755", "of_nobody"):
        show(name, open(f"{MODES}/{name}").read())
    for name in ("m0000", "m0400", "m0600", "m0640", "m0222", "m0111", "of_1234"):
        fails("EACCES", open, f"{MODES}/{name}")
        fails("EACCES", os.open, f"{MODES}/{name}", os.O_RDONLY)


def case_group_rights():
    become(gid=5678)
    show("of_1234", open(f"{MODES}/of_1234").read())


def case_supplementary_group_rights():
    become(groups=(77, 5678))
    show("of_1234", open(f"{MODES}/of_1234").read())


def case_owner_rights():
    become(uid=1234)
    show("of_1234", open(f"{MODES}/of_1234").read())


def case_stat_needs_no_rights_on_the_file():
    become()
    for name in sorted(os.listdir(MODES)):
        status = os.lstat(f"{MODES}/{name}")
        show(name, oct(status.st_mode), status.st_uid, status.st_gid)


def case_directory_without_x():
    become()
    show("list", sorted(os.listdir(f"{MODES}/d0744")))
    fails("EACCES", open, f"{MODES}/d0744/inner")
    fails("EACCES", os.stat, f"{MODES}/d0744/inner")
    fails("EACCES", os.lstat, f"{MODES}/d0744/none")
    fails("EACCES", os.chdir, f"{MODES}/d0744")
    fails("EACCES", os.stat, f"{MODES}/d0744/../m0444")


def case_directory_without_r():
    become()
    fails("EACCES", os.listdir, f"{MODES}/d0711")
    fails("EACCES", os.open, f"{MODES}/d0711", os.O_RDONLY)
    show("inside", open(f"{MODES}/d0711/inner").read())
    fails("ENOENT", os.stat, f"{MODES}/d0711/none")


def case_directory_closed():
    become()
    fails("EACCES", os.listdir, f"{MODES}/d0700")
    fails("EACCES", open, f"{MODES}/d0700/inner")
    fails("EACCES", os.readlink, f"{MODES}/d0700/inner")
    show("stat of itself", stat.filemode(os.stat(f"{MODES}/d0700").st_mode))


def case_access_answers():
    become()
    for name in (
        "m0000",
        "m0444",
        "m0600",
        "m0111",
        "d0700",
        "d0711",
        "d0744",
        "d0744/inner",
        "of_nobody",
    ):
        path = f"{MODES}/{name}"
        show(name, [os.access(path, mode) for mode in (os.F_OK, os.R_OK, os.X_OK)])
        show(
            name,
            [os.access(path, mode, effective_ids=True) for mode in (os.F_OK, os.R_OK, os.X_OK)],
        )


def case_access_uses_the_real_user():
    os.stat(HELLO)
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    show("real", os.access(f"{MODES}/m0600", os.R_OK))
    show("effective", os.access(f"{MODES}/m0600", os.R_OK, effective_ids=True))
    fails("EACCES", open, f"{MODES}/m0600")


def case_rights_come_back():
    os.stat(HELLO)
    os.seteuid(NOBODY)
    fails("EACCES", open, f"{MODES}/m0600")
    os.seteuid(0)
    show("as root", open(f"{MODES}/m0600").read(), open(f"{MODES}/m0000").read())


def case_open_descriptor_survives():
    fd = os.open(f"{MODES}/m0600", os.O_RDONLY)
    become()
    show("read", os.read(fd, 100), os.fstat(fd).st_size)


def case_walk_sees_what_it_may():
    become()
    errors = []
    for folder, folders, files in sorted(
        os.walk(MODES, onerror=lambda error: errors.append(error.filename))
    ):
        show(folder, sorted(folders), sorted(files))
    show("errors", sorted(errors))


def case_o_path_and_noatime():
    become()
    fd = os.open(f"{MODES}/m0600", os.O_PATH)
    show("stat", os.fstat(fd).st_size)
    fails("EPERM", os.open, f"{MODES}/m0444", os.O_RDONLY | os.O_NOATIME)


def case_exec_needs_x():
    become()
    os.chdir("/")
    fails("EACCES", subprocess.run, [f"{MODES}/m0444"])
    fails("EACCES", subprocess.run, [f"{MODES}/m0600"])


def case_root_may_read_all():
    for name in sorted(os.listdir(MODES)):
        if not os.path.isdir(f"{MODES}/{name}"):
            show(name, open(f"{MODES}/{name}").read(), os.access(f"{MODES}/{name}", os.X_OK))
    os.chdir(W)


if __name__ == "__main__":
    run(globals())
