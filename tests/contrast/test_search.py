"""grep, find, tar and the archive programs."""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

import pytest
from arena import Arena
from harness import Case, run_case
from soak import combined

GREP = [
    Case("grep", 'grep needle "$T/text/sub/inner.txt"'),
    Case("grep_r", 'cd "$T" && grep -r "odd name\\|needle" . | sort'),
    Case("grep_rl_absolute", 'grep -rl hello "$T" | sort'),
    Case("grep_R_follows_links", 'grep -R needle "$T/links" 2>/dev/null | sort', exit=0),
    Case(
        "grep_c_n_o",
        'grep -c 00 "$T/text/lines.txt"; grep -n 0299 "$T/text/lines.txt"; grep -ob w "$T/text/hello.txt"',
    ),
    Case("grep_binary", 'grep -c . "$T/bin/mid.bin"; grep -a -c x "$T/bin/mid.bin"'),
    Case("grep_z_and_v", 'grep -v 0 "$T/text/numbers.txt"; grep -zc line "$T/text/lines.txt"'),
    Case("grep_stdin", 'grep -m 2 line < "$T/text/lines.txt"'),
    Case("grep_m_leaves_the_offset", '{ grep -m 1 line; head -n 1; } < "$T/text/lines.txt"'),
    Case("grep_no_match", 'grep nothing-like-this "$T/text/hello.txt"', exit=1, quiet=True),
    Case("grep_missing", 'grep x "$T/none"', exit=2),
    Case("grep_directory", 'grep x "$T/text"', exit=2),
    Case(
        "grep_f_patterns",
        'grep -f "$T/text/x" "$T/text/words.txt" "$T/text/hello.txt"',
        exit=1,
        quiet=True,
    ),
    Case("grep_F_w_i", 'grep -Fiw LINE "$T/text/lines.txt" | tail -n 1'),
    Case("grep_include", 'cd "$T" && grep -rc --include="*.py" import . | sort'),
]

FIND = [
    Case("find_everything", 'find "$T" | LC_ALL=C sort'),
    Case("find_print0_odd_names", 'cd "$T" && find names -print0 | sort -z'),
    Case("find_type", 'for t in f d l; do find "$T" -type $t | wc -l; done'),
    Case(
        "find_name_iname_path",
        'cd "$T" && find . -name "*.png" -path "*cat*" | sort; find . -iname HELLO.TXT',
    ),
    Case(
        "find_size",
        'cd "$T" && find . -type f -size +100k -printf "%p %s\\n" | sort; find . -type f -empty | sort',
    ),
    Case("find_empty_directories", 'cd "$T" && find . -type d -empty | sort'),
    Case(
        "find_perm",
        'cd "$T/modes" && find . -perm 755 | sort; find . -perm -4000; find . -perm /111 | sort',
    ),
    Case(
        "find_links_samefile", 'cd "$T/hard" && find . -links 3 | sort; find . -samefile one | sort'
    ),
    Case("find_newer", 'cd "$T" && find bin -newer text/x | sort; find bin -newermt 2050-01-01'),
    Case("find_mtime", 'find "$T/text" -mtime +30 | wc -l'),
    Case("find_depth_limits", 'cd "$T" && find deep -maxdepth 3 -mindepth 2 | sort'),
    Case(
        "find_depth_first",
        'find "$T/deep/level00/level01/level02/level03/level04/level05/level06" -depth -type d',
    ),
    Case("find_prune", 'cd "$T" && find . -path ./many -prune -o -name "*.txt" -print | sort'),
    Case("find_L", 'cd "$T" && find -L links -name hello.txt 2>/dev/null | grep -v "up/" | sort'),
    Case("find_L_reports_loops", 'cd "$T/links" && find -L loop_a self -maxdepth 1', exit=1),
    Case(
        "find_xtype_lname",
        'cd "$T/links" && find . -xtype l 2>&1 | sort; find . -lname "*text*" | sort',
    ),
    Case(
        "find_printf",
        'cd "$T" && find text hard links -printf "%p|%y|%Y|%m|%M|%n|%u|%g|%U|%G|%l|%d|%f|%h|%T@\\n" 2>&1 | sort',
    ),
    Case("find_readable", 'cd "$T/modes" && find . -readable | sort; find . -executable | sort'),
    Case("find_exec", 'cd "$T" && find hard -type f -exec cat {} + '),
    Case("find_xdev", 'cd "$T" && find . -xdev -type d | sort | tail -n 5'),
    Case("find_regex", 'find "$T" -regex ".*/f0000[0-3].dat" | sort'),
    Case("find_quit", 'find "$T/many" -name "f00*" -print -quit | wc -l'),
    Case("find_user", 'find "$T/text" -uid $(id -u) | wc -l; find "$T/modes" -gid 5678'),
    Case("find_inum", 'cd "$T/hard" && find . -inum $(stat -c %i one) | sort'),
    Case("find_missing", 'find "$T/none"', exit=1),
    Case("find_files_as_arguments", 'find "$T/text/x" "$T/links/to_file" -ls | wc -l'),
    Case(
        "find_from_an_outside_link",
        'find "$O/dir/" -type f | sort; find -H "$O/tree" -maxdepth 1 | sort',
    ),
    Case("find_delete_refused", 'find "$T/none_such" -delete', exit=1),
    Case(
        "ls_inode_equals_dirent_inode",
        'cd "$T" && diff <(find text hard -printf "%i %p\\n" | sort) <(find text hard | xargs stat -c "%i %n" | sort) && echo same',
    ),
    Case("xargs_many_stats", 'cd "$T/many" && ls | xargs stat -c "%n %s" | md5sum'),
    Case(
        "locate_style_scan",
        'cd "$T" && find . -type f -printf "%s\\n" | awk "{ s += \\$1 } END { print s, NR }"',
    ),
]

ARCHIVE = [
    Case("tar_c_t", 'tar -C "$T" --sort=name -c . | tar -tv --full-time'),
    Case(
        "tar_bytes_are_equal",
        'tar -C "$T" --sort=name --pax-option=delete=atime,delete=ctime -H pax -c . | sha256sum',
    ),
    Case(
        "tar_gnu_bytes_are_equal",
        'tar -C "$T" --sort=name -H gnu -c text hard names bin | sha256sum',
    ),
    Case(
        "tar_extracts_elsewhere", 'tar -C "$T" -c text links hard "names dir" | tar -x', times=True
    ),
    Case(
        "tar_S_sparse", 'tar -C "$T" -S -c bin | tar -x --warning=no-timestamp && sha256sum bin/*'
    ),
    Case("tar_h_follows", 'tar -C "$T/links" -h -c to_file via_dir | tar -tv --full-time'),
    Case("tar_d_compares", 'tar -C "$T" -c text | tar -C "$T" -d && echo same'),
    Case(
        "tar_reads_an_archive_on_the_tree",
        'tar -tvf "$T/archives/files.tar"; tar -xOf "$T/archives/files.tar" dir/m3.txt | cksum',
    ),
    Case("tar_z_on_the_tree", 'tar -xzf "$T/archives/files.tar.gz"'),
    Case("tar_T_list_on_stdin", 'cd "$T" && find text -type f | sort | tar -c -T - | tar -t'),
    Case("tar_missing", 'tar -C "$T" -c none text/x | tar -t', keep_stderr=True),
    Case(
        "tar_r_verify_own_copy",
        'tar --sort=name -cf out.tar -C "$T" hard && tar --sort=name -rf out.tar -C "$T" text && tar -tf out.tar | sort',
    ),
    Case(
        "gzip_dc", 'gzip -dc "$T/archives/text.gz" | md5sum; zcat < "$T/archives/text.gz" | md5sum'
    ),
    Case("gzip_l_t", 'gzip -l "$T/archives/text.gz"; gzip -t "$T/archives/text.gz" && echo sound'),
    Case("gzip_c", 'gzip -nc "$T/text/lines.txt" | md5sum'),
    Case(
        "bzip2_xz",
        'bzip2 -dc "$T/archives/text.bz2" | md5sum; xz -dc "$T/archives/text.xz" | md5sum',
        needs=("bzip2", "xz"),
    ),
    Case("zstd", 'zstd -qc "$T/text/lines.txt" | zstd -dqc | md5sum', needs=("zstd",)),
    Case(
        "unzip",
        'unzip -q "$T/archives/files.zip" && unzip -l "$T/archives/files.zip"',
        needs=("unzip",),
    ),
    Case(
        "cpio",
        'cd "$T" && find hard text | sort | cpio -o --quiet -H newc --reproducible 2>/dev/null | cpio -t --quiet | sort',
        needs=("cpio",),
    ),
    Case("zgrep", 'zgrep -c 00 "$T/archives/text.gz"', needs=("zgrep",)),
]


@pytest.mark.parametrize("case", FIND, ids=lambda case: case.name)
def test_find(arena: Arena, case: Case) -> None:
    run_case(arena, case, "store")


@pytest.mark.parametrize("case, codec", combined(GREP + ARCHIVE, ["store", "lz4"]), ids=str)
def test_search_and_archive(arena: Arena, case: Case, codec: str) -> None:
    run_case(arena, case, codec)
