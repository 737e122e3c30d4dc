"""coreutils and other everyday programs, reading the tree."""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

import pytest
from arena import Arena
from harness import LS_SIZES, Case, run_case, substitution
from soak import combined

SIZES_OF_DIRECTORIES = (substitution(rb"^(d\S* .*?)size=\d+", rb"\1size=N"),)
DU_DIRECTORIES = (substitution(rb"^\d+\t", b"N\t"),)

LISTING = [
    Case("ls_lists_a_directory", 'ls "$T"'),
    Case("ls_a_shows_hidden_names", 'ls -a "$T/names"'),
    Case("ls_l_of_a_file", 'ls -l --time-style=full-iso "$T/text/hello.txt"'),
    Case("ls_la_numeric_owners", 'ls -lan --time-style=full-iso "$T/modes"', normalise=LS_SIZES),
    Case("ls_lR_whole_tree", 'ls -lR --time-style=full-iso "$T"', normalise=LS_SIZES),
    Case("ls_l_with_owner_names", 'ls -l "$T/modes"', normalise=LS_SIZES),
    Case("ls_R_relative", 'cd "$T" && ls -R .'),
    Case("ls_b_escapes_odd_names", 'ls -b "$T/names"'),
    Case("ls_N_raw_odd_names", 'ls -N1 "$T/names"'),
    Case(
        "ls_lL_follows_links",
        'ls -lL "$T/links" 2>&1 | grep -v "^l\\|loop\\|dangling\\|self" | sort',
        normalise=LS_SIZES,
    ),
    Case("ls_l_shows_link_targets", 'ls -l --time-style=full-iso "$T/links"', normalise=LS_SIZES),
    Case("ls_H_of_a_link_to_a_directory", 'ls -H "$T/links/to_dir"'),
    Case("ls_l_of_a_link_with_slash", 'ls -l "$T/links/to_dir/"', normalise=LS_SIZES),
    Case("ls_d_of_the_root", 'ls -ld --time-style=full-iso "$T"', normalise=LS_SIZES),
    Case("ls_sorted_by_time", 'ls -t "$T/bin"'),
    Case("ls_sorted_by_size", 'ls -S "$T/bin"'),
    Case("ls_F_marks_kinds", 'ls -F "$T" "$T/links" "$T/scripts"'),
    Case("ls_color_stats_each_name", 'ls --color=always "$T/links" "$T/modes"'),
    Case("ls_of_an_empty_directory", 'ls -A "$T/empty_dir"', quiet=True),
    Case("ls_of_many_files", 'ls "$T/many"'),
    Case("ls_U_has_every_name_once", 'ls -U "$T/many" | sort'),
    Case("ls_f_includes_dots", 'ls -f "$T/text" | sort'),
    Case("ls_missing_enoent", 'ls "$T/nothing"', exit=2),
    Case("ls_through_a_file_enotdir", 'ls "$T/text/hello.txt/x"', exit=2),
    Case("ls_loop_eloop", 'ls "$T/links/loop_a/"', exit=2),
    Case("ls_relative_from_inside", 'cd "$T/text/sub" && ls .. ../../hard'),
    Case("ls_dotdot_in_the_middle", 'ls "$T/text/../hard/./sub/.."'),
    Case("ls_double_slashes", 'ls "$T//text///sub//"'),
    Case("ls_through_an_outside_link", 'ls "$O/tree/text" "$O/dir/sub" "$O/relative/"'),
    Case(
        "ls_i_same_inode_for_hard_links",
        'ls -i "$T"/hard/one "$T"/hard/two "$T"/hard/sub/three | cut -d" " -f1 | uniq | wc -l',
    ),
    Case("dir_and_vdir", 'dir "$T/text"; vdir "$T/text"', normalise=LS_SIZES),
]

STAT = [
    Case(
        "stat_file_fields", 'stat -c "%n|%s|%f|%F|%a|%A|%h|%u|%g|%U|%G|%t|%T" "$T/text/hello.txt"'
    ),
    Case("stat_file_mtime_in_ns", 'stat -c "%y %Y %.9Y" "$T"/bin/*.bin'),
    Case(
        "stat_directory_fields", 'stat -c "%n %f %F %a %h %u %g %y" "$T" "$T/text" "$T/empty_dir"'
    ),
    Case("stat_link_itself", 'stat -c "%N %s %F %a %h" "$T"/links/*'),
    Case(
        "stat_L_follows",
        'stat -L -c "%n %s %F" "$T/links/to_file" "$T/links/via_dir" "$T/links/up"',
    ),
    Case("stat_L_dangling_enoent", 'stat -L -c %s "$T/links/dangling"', exit=1),
    Case("stat_L_loop_eloop", 'stat -L -c %s "$T/links/loop_a"', exit=1),
    Case("stat_L_chain_of_45_eloop", 'stat -L -c %s "$T/links/chain0"', exit=1),
    Case("stat_L_chain_of_39", 'stat -L -c %s "$T/links/chain6"'),
    Case("stat_all_modes", 'stat -c "%n %a %A %u:%g" "$T"/modes/*'),
    Case("stat_hard_links", 'stat -c "%h %s" "$T"/hard/one "$T"/hard/two'),
    Case("stat_sparse_size", 'stat -c %s "$T/bin/sparse.bin"'),
    Case("stat_missing_enoent", 'stat "$T/nope"', exit=1),
    Case("stat_enotdir", 'stat "$T/text/hello.txt/"', exit=1),
    Case("stat_name_too_long", 'stat "$T/$(printf %0300d 0)"', exit=1),
    Case("stat_path_too_long", 'stat "$T/$(printf "a/%.0s" {1..2500})"', exit=1),
    Case("stat_255_byte_name", 'stat -c "%s %n" "$T"/names/nnn*'),
    Case("stat_of_stdin", 'stat -c "%s %F %y" - < "$T/text/lines.txt"'),
    Case(
        "stat_relative_with_dotdot",
        'cd "$T/text" && stat -c %s ../hard/one ./hello.txt ../../"${T##*/}"/text/x',
    ),
    Case(
        "stat_one_device_inside",
        'a=$(stat -c %d "$T"); find "$T" -printf "%D\\n" | sort -u | grep -cx "$a"',
    ),
    Case("stat_inodes_are_unique", 'find "$T" -links 1 -printf "%i\\n" | sort | uniq -d | wc -l'),
    Case("stat_file_system_answers", 'stat -f -c "%l" "$T/text"'),
    Case(
        "test_e_r_f_d_L",
        'cd "$T"; for p in text text/x links/to_dir links/dangling nope links/self '
        'modes/m0000; do for t in e f d L r x s h; do test -$t $p && printf "%s:%s " $p $t; done; done; true',
    ),
    Case(
        "test_nt_ot_ef",
        'cd "$T"; test text/x -nt bin/small.bin && echo newer; '
        "test hard/one -ef hard/sub/three && echo same; test text/x -ef text/hello.txt || echo other",
    ),
    Case(
        "test_program_not_builtin",
        '/usr/bin/test -r "$T/text/x" && echo yes; /usr/bin/test -e "$T/nope" || echo no',
    ),
]

CONTENT = [
    Case("cat_one_file", 'cat "$T/text/hello.txt"'),
    Case("cat_several_files", 'cat "$T"/text/*.txt'),
    Case("cat_big_file", 'cat "$T/bin/big.bin" | sha256sum'),
    Case("cat_to_a_file", 'cat "$T/bin/big.bin" > copy'),
    Case("cat_every_odd_name", 'cat "$T"/names/* "$T"/names/.h*'),
    Case(
        "cat_through_links",
        'cat "$T/links/to_file" "$T/links/to_link" "$T/links/dots" "$T/links/deep"',
    ),
    Case("cat_out_of_the_tree_by_a_link", 'cat "$T/links/outside"'),
    Case(
        "cat_through_outside_links",
        'cat "$O/file" "$O/dir/x" "$O/tree/hard/one" "$O/relative/hello.txt"',
    ),
    Case("cat_outside_dangling_enoent", 'cat "$O/missing"', exit=1),
    Case("cat_empty_file", 'cat "$T/text/empty.txt" > copy'),
    Case("cat_n", 'cat -n "$T/text/no_newline.txt" "$T/text/crlf.txt"'),
    Case("cat_A", 'cat -A "$T/text/crlf.txt" "$T/text/latin1.txt"'),
    Case("cat_directory_eisdir", 'cat "$T/text"', exit=1),
    Case("cat_missing_enoent", 'cat "$T/none" "$T/text/hello.txt"', exit=1),
    Case("cat_dangling_enoent", 'cat "$T/links/dangling"', exit=1),
    Case("cat_loop_eloop", 'cat "$T/links/self"', exit=1),
    Case("cat_link_to_file_with_slash_enotdir", 'cat "$T/links/to_file_slash"', exit=1),
    Case("cat_dev_stdin", 'cat /dev/stdin < "$T/text/hello.txt"'),
    Case("cat_proc_self_fd", 'cat /proc/self/fd/5 5< "$T/text/hello.txt"'),
    Case("cat_dev_fd", 'cat /dev/fd/7 7< "$T/bin/mid.bin" | cksum'),
    Case("cat_deep", 'cat $(find "$T/deep" -name here.txt | sort)'),
    Case("head_default", 'head "$T/text/lines.txt"'),
    Case("head_c", 'head -c 12345 "$T/bin/mid.bin" | md5sum'),
    Case("head_n_negative", 'head -n -2990 "$T/text/lines.txt"'),
    Case("head_c_negative", 'head -c -1000000 "$T/bin/big.bin" | md5sum'),
    Case("head_several", 'head -n 2 "$T"/text/*.txt'),
    Case("tail_default", 'tail "$T/text/lines.txt"'),
    Case("tail_c", 'tail -c 70000 "$T/bin/mid.bin" | md5sum'),
    Case("tail_c_plus", 'tail -c +65530 "$T/bin/mid.bin" | md5sum'),
    Case("tail_n_plus", 'tail -n +2995 "$T/text/lines.txt"'),
    Case("tail_stdin", 'tail -n 3 < "$T/text/lines.txt"'),
    Case("tail_c_beyond_the_start", 'tail -c 100000 "$T/text/hello.txt"'),
    Case("tail_empty", 'tail "$T/text/empty.txt"', quiet=True),
    Case("tail_directory", 'tail "$T/text"', exit=1),
    Case("tac", 'tac "$T/text/numbers.txt"'),
    Case("dd_whole", 'dd if="$T/bin/mid.bin" of=out bs=4k status=none'),
    Case(
        "dd_skip_and_count", 'dd if="$T/bin/big.bin" bs=1000 skip=77 count=13 status=none | md5sum'
    ),
    Case(
        "dd_skip_bytes",
        'dd if="$T/bin/big.bin" bs=64k iflag=skip_bytes,count_bytes skip=1048570 '
        "count=100000 status=none | md5sum",
    ),
    Case("dd_nofollow_eloop", 'dd if="$T/links/to_file" iflag=nofollow status=none', exit=1),
    Case("dd_directory_flag_enotdir", 'dd if="$T/text/x" iflag=directory status=none', exit=1),
    Case("dd_of_a_directory", 'dd if="$T/text" status=none', exit=1),
    Case("dd_stdin_skip", 'dd bs=512 skip=3 count=2 status=none < "$T/bin/small.bin" | cksum'),
    Case("dd_nocache", 'dd if="$T/bin/mid.bin" iflag=nocache bs=8k status=none | cksum'),
    Case("dd_beyond_the_end", 'dd if="$T/text/hello.txt" bs=1 skip=100 2>&1 | head -n 3'),
    Case("wc", 'cd "$T" && wc text/*.txt bin/*.bin'),
    Case("wc_c_of_stdin", 'wc -c < "$T/bin/big.bin"'),
    Case("wc_files0_from", 'find "$T/names" -type f -print0 | sort -z | wc --files0-from=-'),
    Case("md5sum_tree", 'cd "$T" && find . -type f -print0 | sort -z | xargs -0 md5sum'),
    Case("sha256sum_check", 'cd "$T/bin" && sha256sum *.bin > "$W/sums" && sha256sum -c "$W/sums"'),
    Case("cksum_sum_b2sum", 'cd "$T/bin" && cksum *.bin && sum *.bin && b2sum *.bin'),
    Case("sort", 'sort "$T/text/words.txt" "$T/text/lines.txt"'),
    Case("sort_key_numeric_unique", 'sort -k2,2 -n -u "$T/text/numbers.txt"'),
    Case("sort_parallel", 'sort --parallel=2 -S 1M -r "$T/text/lines.txt" | md5sum'),
    Case(
        "sort_c_order",
        'sort -c "$T/text/lines.txt" && echo sorted; sort -c "$T/text/words.txt"',
        exit=1,
    ),
    Case(
        "uniq_cut_tr_paste",
        'cut -d- -f1 "$T/text/words.txt" | sort | uniq -c; '
        'paste "$T/text/hello.txt" "$T/text/crlf.txt"; tr a-z A-Z < "$T/text/hello.txt"',
    ),
    Case(
        "join_comm",
        'comm <(sort "$T/text/words.txt") <(sort "$T/text/hello.txt") | tail -3; '
        'join -1 3 -2 3 "$T/text/numbers.txt" "$T/text/numbers.txt" 2>&1 | head -3',
    ),
    Case("od", 'od -A d -t x1z -j 100 -N 64 "$T/bin/small.bin"'),
    Case("od_j_on_a_large_file", 'od -A x -t u4 -j 399960 "$T/bin/pattern.bin"'),
    Case("od_several", 'od -c "$T/text/x" "$T/text/hello.txt"'),
    Case("hexdump_xxd", 'xxd -s 10 -l 32 "$T/bin/small.bin"', needs=("xxd",)),
    Case("split_bytes", 'split -b 70000 "$T/bin/mid.bin" part.'),
    Case("split_lines", 'split -l 1000 -d "$T/text/lines.txt" part.'),
    Case("split_n", 'split -n 3 "$T/bin/small.bin" n.'),
    Case("csplit", 'csplit -s "$T/text/lines.txt" 10 20'),
    Case(
        "fold_fmt_nl_expand",
        'fold -w 10 "$T/text/lines.txt" | head; nl "$T/text/wide.txt"; '
        'expand "$T/text/hello.txt"; fmt "$T/text/crlf.txt"',
    ),
    Case("base64", 'base64 "$T/bin/small.bin"'),
    Case(
        "shuf_with_a_random_source",
        'shuf --random-source="$T/bin/big.bin" "$T/text/words.txt" | head',
    ),
    Case("tee_from_stdin", 'tee copy < "$T/text/words.txt" | cksum'),
    Case("strings", 'strings -n 8 "$T/scripts/echo" | sort | head -40', needs=("strings",)),
    Case(
        "file_kinds",
        'cd "$T" && file text/* bin/small.bin img/cat/0.png scripts/* archives/*',
        needs=("file",),
    ),
    Case(
        "file_of_links_and_directories", 'cd "$T" && file links/* hard empty_dir', needs=("file",)
    ),
    Case(
        "awk",
        "awk '{ total += $2 } END { print NR, total }' \"$T/text/numbers.txt\"",
        needs=("awk",),
    ),
    Case("sed_n", 'sed -n "5,7p;$=" "$T/text/lines.txt"', needs=("sed",)),
    Case("sed_w", 'sed -n "/0010/w out" "$T/text/lines.txt"', needs=("sed",)),
    Case("cmp_equal", 'cmp "$T/bin/mid.bin" "$T/bin/mid.bin" && echo equal'),
    Case("cmp_differs", 'cmp "$T/bin/page.bin" "$T/bin/page1.bin"', exit=1),
    Case("cmp_l_skip", 'cmp -l -i 10:20 -n 40 "$T/bin/small.bin" "$T/bin/page.bin"', exit=1),
    Case("cmp_of_a_copy", 'cp "$T/bin/big.bin" c && cmp c "$T/bin/big.bin" && echo equal'),
    Case("diff_texts", 'diff "$T/text/hello.txt" "$T/text/x"', exit=1),
    Case(
        "diff_r_against_a_copy",
        'cp -r "$T/text" c && echo more >> c/x && diff -r "$T/text" c',
        exit=1,
    ),
    Case("diff_r_two_trees", 'diff -rq "$T/text" "$T/hard"', exit=1),
    Case(
        "mapfile_of_find_and_xargs_cat",
        'find "$T/img" -name "*.png" -print0 | sort -z | xargs -0 -n2 -P2 cat | wc -c',
    ),
]

PATHS = [
    Case(
        "realpath",
        'realpath "$T/links/deep" "$T/links/to_dir/sub/.." "$O/dir/x" "$T/text/./../hard"',
    ),
    Case("realpath_missing", 'realpath "$T/nope/deeper"', exit=1),
    Case("realpath_m", 'realpath -m "$T/nope/deeper/../x" "$T/links/dangling"'),
    Case("realpath_e_dangling", 'realpath -e "$T/links/dangling"', exit=1),
    Case(
        "realpath_s_and_relative",
        'realpath -s "$T/links/to_dir" && realpath --relative-to="$T/text" "$T/hard/one"',
    ),
    Case("realpath_loop", 'realpath "$T/links/loop_a"', exit=1),
    Case("readlink_each", 'for l in "$T"/links/*; do readlink "$l"; done'),
    Case(
        "readlink_f",
        'for l in to_file to_dir via_dir up chain40 deep; do readlink -f "$T/links/$l"; done',
    ),
    Case("readlink_e_m", 'readlink -e "$T/links/dangling"; readlink -m "$T/links/dangling"'),
    Case("readlink_of_a_file", 'readlink -v "$T/text/x"', exit=1),
    Case("readlink_proc_self_fd", 'readlink /proc/self/fd/6 6< "$T/text/hello.txt"'),
    Case("readlink_proc_self_cwd", 'cd "$T/text" && readlink /proc/self/cwd && /bin/pwd'),
    Case("pwd_P_and_L", 'cd "$T/links/to_dir" && pwd && pwd -P && /bin/pwd -P'),
    Case("namei", 'namei -l "$T/links/via_dir" | tail -n +3 | cut -c1-10', needs=("namei",)),
]

DU = [
    Case("du_apparent_size_of_files", 'du --apparent-size -b "$T"/text/*.txt "$T"/bin/*'),
    Case(
        "du_names_every_directory", 'du --apparent-size "$T" | sort -k2', normalise=DU_DIRECTORIES
    ),
    Case("du_a_names_everything", 'du -a "$T/hard" "$T/text" | cut -f2 | sort'),
    Case("du_counts_hard_links_once", 'cd "$T/hard" && du -b --apparent-size one two sub/three'),
    Case("du_missing", 'du "$T/nope"', exit=1),
    Case("df_answers", 'df "$T/text" > /dev/null && echo answered'),
]

COPY = [
    Case("cp_file", 'cp "$T/bin/mid.bin" .'),
    Case("cp_p_keeps_time_and_mode", 'cp -p "$T/modes/m0755" "$T/bin/small.bin" .', times=True),
    Case("cp_a_tree", 'cp -a "$T" copy', times=True),
    Case("cp_a_directory_of_odd_names", 'cp -a "$T/names" "$T/names dir" .', times=True),
    Case("cp_a_keeps_hard_links", 'cp -a "$T/hard" .', times=True),
    Case("cp_r", 'cp -r "$T/text" "$T/hard" .'),
    Case("cp_rL_follows_links", 'mkdir c && cp -rL "$T/links/to_dir" "$T/links/to_file" c/'),
    Case("cp_d_link", 'cp -d "$T/links/to_file" "$T/links/dangling" .'),
    Case("cp_several_to_a_directory", 'cp "$T"/img/cat/*.png .'),
    Case("cp_sparse_always", 'cp --sparse=always "$T/bin/sparse.bin" "$T/bin/zeros.bin" .'),
    Case("cp_sparse_never", 'cp --sparse=never "$T/bin/sparse.bin" .'),
    Case("cp_reflink_auto", 'cp --reflink=auto "$T/bin/big.bin" out'),
    Case(
        "cp_reflink_always_fails",
        'cp --reflink=always "$T/text/x" out 2>/dev/null',
        exit=1,
        quiet=True,
    ),
    Case("cp_dev_stdin", 'cp /dev/stdin out < "$T/bin/mid.bin"'),
    Case("cp_u_does_nothing_when_newer", 'touch x && cp -u "$T/text/x" . && wc -c x'),
    Case("cp_directory_without_r", 'cp "$T/text" .', exit=1),
    Case("cp_missing", 'cp "$T/none" .', exit=1),
    Case("cp_s_makes_links", 'cp -s "$T/text/x" . && cat x'),
    Case("cp_parents", 'cd "$T" && cp --parents text/sub/inner.txt "$W"'),
    Case("install", 'install -m 640 "$T/scripts/hello.sh" out'),
    Case(
        "ln_s_into_the_tree_then_cat",
        'ln -s "$T/text" d && ln -s "$T/text/x" f && cat d/hello.txt f',
    ),
    Case("rsync_a", 'rsync -a "$T/" copy/', needs=("rsync",), times=True),
    Case(
        "rsync_aH_checksum",
        'rsync -aH "$T/hard" . && rsync -acni "$T/hard" .',
        needs=("rsync",),
        times=True,
    ),
    Case("scp_like_pipe", 'tar -C "$T" -cf - text | tar -xf - && cat text/hello.txt'),
    Case("touch_r_takes_a_time_from_the_tree", 'touch -r "$T/text/hello.txt" stamp', times=True),
]


@pytest.mark.parametrize("case", LISTING + STAT + PATHS + DU, ids=lambda case: case.name)
def test_metadata(arena: Arena, case: Case) -> None:
    run_case(arena, case, "store")


@pytest.mark.parametrize("case, codec", combined(CONTENT, ["store", "lz4", "zstd"]), ids=str)
def test_content(arena: Arena, case: Case, codec: str) -> None:
    run_case(arena, case, codec)


@pytest.mark.parametrize("case, codec", combined(COPY, ["store", "lz4"]), ids=str)
def test_copy(arena: Arena, case: Case, codec: str) -> None:
    run_case(arena, case, codec)
