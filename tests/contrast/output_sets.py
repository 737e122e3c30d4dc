"""The sets of cases that make outputs: what runs together, and the shell's own cases."""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from arena import SELF
from case_set import Set
from harness import Case

SHELL = (
    Case("redirect_and_cat", "echo one > f; cat f; echo two > f; cat f"),
    Case("append", "for i in 1 2 3; do echo $i >> log; cat log; done"),
    Case("dash", "echo one > f; cat f; echo two >> f; cat < f; ls", shell="dash"),
    Case("pipe_into_tee", "seq 100 | tee f g | tail -n 1; cmp f g && wc -l f"),
    Case("tee_append", "echo a | tee -a f; echo b | tee -a f; cat f"),
    Case("background_and_wait", "(sleep 0.1; echo late) > f & wait; cat f"),
    Case("here_document", "cat > f <<X\nhere $((1 + 1))\nX\ncat f"),
    Case("group_redirect", "{ echo a; echo b >&2; sh -c 'echo c'; } > f 2>&1; cat f"),
    Case("exec_redirect", "exec 5> f; echo a >&5; sh -c 'echo b >&5'; exec 5>&-; cat f"),
    Case("read_and_write", "exec 5<> f; echo line >&5; exec 5>&-; read x < f; echo $x"),
    Case("noclobber", "set -C; echo a > f; echo b > f", exit=1),
    Case("clobber_anyway", "set -C; echo a > f; echo b >| f; cat f"),
    Case("empty_redirect", ": > f; > g; wc -c f g; test -s f; echo $?"),
    Case("redirect_of_a_failure", "no_such_program > f 2>/dev/null; echo $?; wc -c f"),
    Case("redirect_below_missing", "echo x > none/f", exit=1),
    Case("redirect_over_a_directory", "mkdir d; echo x > d", exit=1),
    Case("sort_in_place", "printf 'b\\na\\n' > f; sort -o f f; cat f"),
    Case("loop_over_files", "for i in a b c; do echo $i > $i.txt; done; cat *.txt; echo ?.txt"),
    Case("script_is_run", "printf '#!/bin/sh\\necho ran $1\\n' > s; chmod +x s; ./s well; \"$D/s\" too; sh s three"),
    Case("script_not_executable", "echo 'echo x' > s; ./s", exit=126),
    Case("subdirectories", "mkdir -p a/b/c; cd a/b; pwd | sed 's|.*/a|a|'; echo x > c/f; cd ..; find . | sort"),
    Case("pushd_and_cd_dash", "mkdir -p d/e; pushd d/e > /dev/null; echo x > f; popd > /dev/null; cat d/e/f; cd d; cd - > /dev/null; ls"),
    Case("glob_sees_new_names", "touch x1 x2; echo x*; rm x1; echo x*"),
    Case("process_substitution", "echo a > f; echo b > g; diff <(cat f) g; cat f > >(cat > h); sleep 0.2; cat h"),
    Case("here_string_and_read", "while read line; do echo \"<$line>\" >> g; done <<< $'a\\nb'; cat g"),
    Case("xargs_in_parallel", "seq 20 | xargs -P 4 -I N sh -c 'echo N > fN'; cat f* | sort -n | tail -n 1; ls | wc -l"),
    Case("trap_writes_at_exit", "bash -c 'trap \"echo bye > f\" EXIT; echo hi'; cat f"),
)  # fmt: skip

COREUTILS = (
    Case("touch", "touch f g; touch -d '2001-02-03 04:05:06' f; touch -r f g; stat -c '%n %Y %s %a' f g; touch -c none; ls"),
    Case("cp", "cp given f; cp -p given g; cp f sub; cmp given sub/f; cp given none/x", exit=1),
    Case("cp_over", "echo longer content > f; cp given f; cat f; cp -f given f; cp -n given f; cp f f", exit=1),
    Case("cp_r", "mkdir -p d/e; echo x > d/e/f; ln -s e d/l; cp -r d copy; cp -a d all; find copy all | sort; readlink all/l"),
    Case("cp_of_inputs", 'cp -r "$T/text" here; cp -a "$T/links" links; ls here here/sub; readlink links/to_file; cat here/sub/inner.txt'),
    Case("cp_sparse_and_reflink", "truncate -s 1M f; cp --sparse=always f g; cp --reflink=auto f h; stat -c %s g h"),
    Case("cp_u_and_backup", "cp given f; cp -b given f; cp --backup=numbered given f; ls"),
    Case("mv", "echo a > f; mv f g; mv g sub; mv sub/g .; mkdir d; mv g d; ls; ls d sub; mv none x", exit=1),
    Case("mv_over_and_n", "echo a > f; echo b > g; mv -n f g; cat g; mv -f f g; cat g; ls"),
    Case("mv_out_and_in", 'echo a > f; mv f "$W/moved"; ls; mv "$W/moved" back; cat back'),
    Case("mv_directories", "mkdir -p d/e x; echo a > d/e/f; mv d x; find x | sort; mv x/d/e y; find x y | sort"),
    Case("rm", "touch a b; rm a; rm -f none b; rm none", exit=1),
    Case("rm_rf", "mkdir -p d/e/f; touch d/a d/e/b d/e/f/c; rm -rf d; ls; rm -rf none"),
    Case("rm_r_of_many", "mkdir d; (cd d; seq 400 | xargs touch); ls d | wc -l; rm -r d; ls"),
    Case("rmdir_p", "mkdir -p a/b/c; rmdir -p a/b/c; ls; rmdir none", exit=1),
    Case("mkdir_modes", "umask 077; mkdir d; mkdir -m 755 e; mkdir -p f/g; stat -c '%n %a' d e f f/g; mkdir d", exit=1),
    Case("ln_s", "echo a > f; ln -s f l; ln -sf given l; readlink l; cat l; ln -sfn sub l; ls l; ln -s f l/x; readlink sub/x"),
    Case("readlink_and_realpath", 'mkdir d; ln -s d l; echo x > d/f; for x in l/f d/../l/f none; do realpath -m $x | sed "s|$D|D|"; done'),
    Case("chmod_r", "mkdir -p d/e; touch d/f d/e/g; chmod -R go-rwx d; stat -c '%n %a' d d/e d/f d/e/g; chmod u-w d/f; test -w d/f; chmod 000 none", exit=1),
    Case("truncate", "echo 0123456789 > f; truncate -s 4 f; cat f; truncate -s +3 f; stat -c %s f; truncate -s 1K g; stat -c %s g"),
    Case("dd", "dd if=/dev/zero of=f bs=1k count=4 status=none; printf XY | dd of=f bs=1 seek=10 conv=notrunc status=none; stat -c %s f; md5sum f; dd if=f of=g bs=512 conv=fsync status=none; cmp f g"),
    Case("install", "install -m 750 given f; install -D given a/b/c; install -d x/y; stat -c '%n %a' f a/b/c x/y"),
    Case("split_and_cat", "seq 1000 > f; split -l 300 f part.; ls; cat part.* | cmp - f"),
    Case("csplit", "seq 10 | csplit -s - 4 7; ls; cat xx01"),
    Case("mktemp", "f=$(mktemp ./XXXXXX); d=$(mktemp -d ./XXXXXX); test -f $f && test -d $d && stat -c %a $f $d; rm -r $f $d"),
    Case("sed_i", "printf 'hello\\n' > f; sed -i s/h/H/ f; cat f; sed -i.bak s/H/J/ f; cat f f.bak; ls"),
    Case("perl_i", "echo hello > f; perl -pi -e s/l/L/g f; cat f", needs=("perl",)),
    Case("awk_prints_into_files", "seq 10 | awk '{ print > \"f\" $1 % 3 }'; cat f0 f1 f2"),
    Case("ls_l", "echo x > f; mkdir d; ln -s f l; ls -l | tail -n +2 | awk '{ print $1, $2 * ($1 !~ /^d/), $3, $4, $5 * ($1 !~ /^d/), $9, $10, $11 }'; ls -A; ls -d *"),
    Case("du_and_df", "dd if=/dev/zero of=f bs=64k count=2 status=none; du -s --apparent-size f; df . | wc -l; test $(df --output=avail . | tail -n 1) -gt 0 && echo room"),
    Case("stat_of_each_kind", "echo x > f; mkdir d; ln -s f l; stat -c '%n %F %a' f d l"),
    Case("find_tests", "mkdir -p d/e; echo x > d/f; touch d/e/empty; find . -type f | sort; find . -empty | sort; find . -name f -exec cat {} +; find . -newer given -name f | wc -l"),
    Case("find_delete", "mkdir -p d/e/f; touch d/a d/e/b; find d -name b -delete; find d | sort; find d -delete; ls"),
    Case("grep_r", "mkdir d; echo needle > d/f; grep -r needle . ; grep -rl e d"),
    Case("diff_r", "mkdir a b; echo 1 > a/f; echo 2 > b/f; touch a/only; diff -r a b", exit=1),
    Case("patch", "seq 5 > f; printf -- '--- f\\n+++ f\\n@@ -1,3 +1,3 @@\\n 1\\n-2\\n+two\\n 3\\n' | patch -s f; cat f; ls", needs=("patch",)),
    Case("tail_follows_a_file", "seq 3 > f; timeout 2 tail -n 1 --pid=$$ f; seq 4 > f; tail -n 1 f"),
    Case("sync", "echo x > f; sync f; cat f; sync -d f"),
    Case("flock", "flock lock sh -c 'echo inside'; flock -n lock true; echo $?; (flock -n 9 && echo got) 9> lock2; ls", needs=("flock",)),
    Case("comm_and_join_outputs", "seq 5 > a; seq 3 8 > b; comm -12 a b > c; paste a b > d; cat c d"),
)  # fmt: skip

ARCHIVERS = (
    Case("gzip", "seq 1000 > f; gzip -n f; ls; gzip -dk f.gz; md5sum f; gzip -n < f > g.gz; cmp f.gz g.gz; gzip f", exit=2),
    Case("bzip2_and_xz", "seq 1000 > f; bzip2 -k f; xz -k -T 1 f; rm f; bunzip2 f.bz2; mv f g; unxz f.xz; cmp f g; ls", needs=("bzip2", "xz")),
    Case("zstd", "seq 10000 > f; zstd -q f; ls; zstd -q -d f.zst -o g; cmp f g; zstd -q --rm g; ls", needs=("zstd",)),
    Case("tar_create_and_extract", "mkdir -p d/e; seq 100 > d/f; ln -s f d/l; chmod 640 d/f; touch -d 2001-02-03 d/f; tar cf a.tar d; mkdir x; tar xf a.tar -C x; stat -c '%n %a %Y' x/d/f; readlink x/d/l; tar df a.tar"),
    Case("tar_of_inputs_into", 'tar -C "$T" -cf - text links | tar xf -; find text links | sort; cat text/hello.txt'),
    Case("tar_x_over", "echo a > f; tar cf a.tar f; echo b > f; tar xf a.tar; cat f; echo c > f; tar xf a.tar --overwrite; cat f; tar xkf a.tar", exit=2),
    Case("tar_z", "mkdir d; seq 1000 > d/f; tar czf a.tgz d; rm -r d; tar xzf a.tgz; md5sum d/f; rm a.tgz"),
    Case("tar_append", "echo a > f; echo b > g; tar cf a.tar f; tar rf a.tar g; tar tf a.tar; rm a.tar"),
    Case("zip_and_unzip", "mkdir d; seq 100 > d/f; zip -qr a.zip d; rm -r d; unzip -q a.zip; md5sum d/f; rm a.zip", needs=("zip", "unzip")),
    Case("cpio", "mkdir d; echo x > d/f; find d | cpio -o --quiet > a.cpio; rm -r d; cpio -id --quiet < a.cpio; cat d/f; rm a.cpio", needs=("cpio",)),
    Case("rsync", "mkdir -p d/e; seq 100 > d/e/f; ln -s e d/l; rsync -a d/ copy/; find copy | sort; echo more >> d/e/f; rsync -a --delete d/ copy/; cmp d/e/f copy/e/f; rsync -a --inplace d/ copy/; touch copy/extra; rsync -ai --delete d/ copy/ | grep extra", needs=("rsync",)),
    Case("rsync_of_inputs", 'rsync -a "$T/text/" here/; ls here; cat here/hello.txt', needs=("rsync",)),
)  # fmt: skip

GIT = "export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org; export GIT_CEILING_DIRECTORIES=\"$T\"; "

TOOLS = (
    Case("git", GIT + "mkdir r; cd r; git init -q -b main . && echo one > f && git add f && git commit -q -m first && echo two >> f && git status --short && git commit -qam second && git log --format='%h %s' && git tag t && git checkout -q -b other HEAD~1 && cat f && git merge -q main && cat f && git fsck && rm -rf .git/hooks", needs=("git",)),
    Case("git_gc", GIT + "mkdir r; cd r; git init -q -b main . && for i in 1 2 3; do echo $i > f$i; git add .; git commit -q -m $i; done; git -c pack.threads=1 gc -q --prune=now; git fsck; git log --oneline | wc -l; git stash list; cat f3; rm -rf .git/hooks", needs=("git",)),
    Case("git_clone", GIT + "mkdir r; cd r; git init -q -b main . && echo one > f && git add f && git commit -q -m first; cd ..; git clone -q --no-hardlinks r s 2>&1; cd s; git log --oneline; git mv f g; git status --short; cat g; cd ..; rm -rf r s", needs=("git",)),
    Case("sqlite3", "sqlite3 a.db 'create table t(a); insert into t values (1), (2); select sum(a) from t'; sqlite3 a.db 'update t set a = a + 1; select * from t'; ls", needs=("sqlite3",)),
    Case("cc_and_run", "printf '#include <stdio.h>\\nint main(void) { puts(\"compiled\"); return 0; }\\n' > m.c; cc -c m.c -o m.o && cc m.o -o m && ./m; ls; rm m", needs=("cc",)),
    Case("cc_archive_and_shared", "echo 'int f(void) { return 7; }' > f.c; echo 'int f(void); int main(void) { return f(); }' > m.c; cc -shared -fPIC f.c -o libf.so && cc m.c -L. -lf -o m && cp libf.so m $W; LD_LIBRARY_PATH=$W $W/m; echo $?; rm $W/m $W/libf.so; cc -c f.c && ar Drcs libg.a f.o && cc m.c libg.a -o n && ./n; echo $?; rm m n libf.so", needs=("cc", "ar")),
    Case("make", "printf 'all: b\\nb: a\\n\\tcat a a > b\\n' > Makefile; echo x > a; touch -d '1 hour ago' a; make -s; make -s -q; echo $?; touch -d '1 hour' a; make -s -q; echo $?; cat b", needs=("make",)),
    Case("python_scripts", "echo 'print(\"a module\")' > m.py; python3 m.py; python3 -m m; python3 -c 'import m'"),
    Case("static_program_writes_stdout", "env -i /bin/echo static > f; cat f; env -i sh -c 'echo a; echo b' >> f; cat f"),
    Case("busybox_like_pipes", "seq 50000 | gzip -n | tee f.gz | gunzip | md5sum; gunzip -c f.gz | wc -l"),
    Case("node_of_the_shell", "for i in $(seq 30); do echo $i > n; mv n m; done; cat m; ls"),
)  # fmt: skip

RULES = tuple(
    Set(f"out_{name}.py") for name in ("rename", "names", "open", "dirs", "attrs", "locks")
)
LIFE = (
    Set("out_life.py"),
    Set("out_process.py"),
    Set("out_calls.c"),
    Set("out_refused.py", kinds=("input",)),
    Set("out_stdio.c", kinds=("output",)),
    Set("out_stream.cc", kinds=("input",)),
    Set("shell", shell=SHELL),
)
PROGRAMS = (
    Set(
        "out_programs.py", kinds=("output",), volatile=(r".*\.npz", r".*\.dist-info/.*", r".*\.pyc")
    ),
    Set("coreutils", kinds=("input",), shell=COREUTILS),
    Set("archivers", kinds=("output",), shell=ARCHIVERS, volatile=(r"a\.tar",)),
    Set("tools", kinds=("output",), shell=TOOLS, volatile=(r"r/\.git/index",)),
)
OVER = (
    Set("out_dirs.py", where="over"),
    Set("out_names.py", kinds=("output",), where="over"),
    Set("out_life.py", kinds=("input",), where="over"),
)
DENIED = (
    Set("out_denied.py", where="nobody"),
    Set("out_rename.py", kinds=("input",), where="nobody"),
    Set("shell", kinds=("output",), shell=SHELL, where="nobody"),
)
# The same in a job of two ranks, each of which keeps the names in some of the directories.
RANKS = tuple(replace(group, where="ranks") for group in (*RULES, *LIFE, *PROGRAMS))


def with_one_kind(groups: Sequence[Set]) -> tuple[Set, ...]:
    """The sets that `make test` takes: each with one of its kinds, in turn."""
    return tuple(
        replace(group, kinds=(group.kinds[number % len(group.kinds)],))
        for number, group in enumerate(groups)
    )


# There a call takes many times as long: `make test` takes few of the sets.
QUICK_RANKS = with_one_kind([RANKS[0], RANKS[len(RULES)]])

SETS = (*RULES, *LIFE, *PROGRAMS, *OVER, *DENIED, *RANKS)


# Where FanStore differs, and says so in docs/outputs.md. Strict: a difference that goes away is to be
# taken out of here.
DIFFERENT: dict[str, str] = {}


def parameters(sets: Sequence[Set], quick: Sequence[Set] | None = None) -> list[object]:
    """(set, case, kind) of each case; those known to differ are expected to fail. `make test` takes
    the sets `quick`, and `make soak` the other cases."""
    quick = with_one_kind(sets) if quick is None else quick
    taken = [(group, *pair) for group in quick for pair in group.parameters()]
    names = {(group.label, *pair) for group, *pair in taken}
    rest = [
        (group, *pair) for group in sets for pair in group.parameters()
        if (group.label, *pair) not in names
    ]  # fmt: skip
    return [*map(parameter, taken), *(parameter(case, pytest.mark.soak) for case in rest)]


def whole_sets(sets: Sequence[Set], quick: Sequence[Set] | None = None) -> list[object]:
    """The sets that `make test` takes, and for `make soak` all as they are."""
    quick = with_one_kind(sets) if quick is None else quick
    return [*quick, *(pytest.param(each, marks=pytest.mark.soak) for each in sets)]


def set_label(group: Set) -> str:
    """Returns the name of a set for pytest."""
    return "-".join((group.label, *group.kinds))


def parameter(case: tuple[Set, str, str], *marks: pytest.MarkDecorator) -> object:
    """One of them, for parametrize."""
    reason = DIFFERENT.get(case[1])
    if case[0].where == "ranks" and case[1:] == ("case_watches", "input"):
        reason = "a directory of the dataset can be watched in jobs of one rank alone"
    if reason is not None:
        marks = (*marks, pytest.mark.xfail(reason=reason, strict=not SELF))
    return pytest.param(case, marks=marks)


def label(value: object) -> str:
    """Returns the name of a case for pytest."""
    assert isinstance(value, tuple)
    group, case, kind = value
    return f"{group.label.removeprefix('out_')}-{case.removeprefix('case_')}-{kind}"
