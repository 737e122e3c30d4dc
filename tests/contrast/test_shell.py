"""bash and dash: redirections, globs, the working directory, and starting programs."""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

import pytest
from arena import Arena
from harness import Case, run_case
from soak import combined

REDIRECTION = [
    Case(
        "redirection_shares_the_offset",
        '{ head -c 10; echo "|"; cat; } < "$T/text/lines.txt" | md5sum',
    ),
    Case(
        "redirection_offset_after_a_child",
        '{ dd bs=1 count=6 status=none; echo "|"; cat; } < "$T/text/hello.txt"',
    ),
    Case(
        "subshells_share_the_offset",
        '(read a; echo $a; (read b; echo $b); read c; echo $c) < "$T/text/lines.txt"',
    ),
    Case(
        "while_read",
        'n=0; while read -r a b; do n=$((n+1)); last=$b; done < "$T/text/lines.txt"; echo $n $last',
    ),
    Case(
        "read_and_then_cat", '{ read a; echo "[$a]"; head -n 2; } < "$T/text/lines.txt" | head -n 2'
    ),
    Case(
        "exec_3",
        'exec 3< "$T/text/lines.txt"; read -u 3 a; read -u 3 b; echo "$a,$b"; cat <&3 | tail -n 1; exec 3<&-',
    ),
    Case("exec_closed_then_ebadf", 'exec 3< "$T/text/x"; exec 3<&-; cat <&3', exit=1),
    Case(
        "dup_4_from_3", 'exec 3< "$T/text/lines.txt" 4<&3; read -u 3 a; read -u 4 b; echo "$a|$b"'
    ),
    Case(
        "move_fd",
        'exec 3< "$T/text/lines.txt"; exec 5<&3-; read -u 5 a; echo $a; read -u 3 b',
        exit=1,
    ),
    Case("dollar_less_than", 'x=$(< "$T/text/lines.txt"); echo ${#x}'),
    Case("dollar_cat", 'x=$(cat "$T/text/wide.txt"); echo "$x"'),
    Case("mapfile", 'mapfile -t a < "$T/text/lines.txt"; echo ${#a[@]} ${a[2999]}'),
    Case("process_substitution", 'diff <(cat "$T/text/x") <(head -c 1 "$T/text/x") && echo same'),
    Case("here_string_and_file", 'cat - "$T/text/x" <<< here'),
    Case("redirect_missing_enoent", 'cat < "$T/none"', exit=1),
    Case("redirect_through_a_file_enotdir", 'cat < "$T/text/x/y"', exit=1),
    Case("redirect_directory_eisdir", 'cat < "$T/text"', exit=1),
    Case("redirect_high_number", 'exec 200< "$T/text/hello.txt"; cat <&200'),
    Case(
        "many_redirections",
        'for i in {10..60}; do eval "exec $i< \\"$T/many/f000$i.dat\\""; done; '
        "for i in {10..60}; do cat <&$i; done",
    ),
    Case("stdin_of_a_pipeline", '< "$T/text/words.txt" sort | tail -n 1'),
    Case("read_n_from_a_file", 'read -N 5 a < "$T/text/hello.txt"; echo "$a"'),
    Case("read_t_0", 'read -t 0 < "$T/text/hello.txt" && echo ready'),
    Case("seek_back_after_read_builtin", '{ read x; tail -c 5; } < "$T/text/hello.txt"; echo "$x"'),
    Case("background_reader", '{ cat & wait; cat; } < "$T/text/hello.txt"'),
    Case("coproc", 'coproc C { cat "$T/text/hello.txt"; }; read -u ${C[0]} a; echo $a; wait'),
    Case("source_from_the_tree", 'source "$T/scripts/source_me.sh"; echo $SOURCED'),
    Case("dash_redirection", '{ head -c 6; cat; } < "$T/text/hello.txt"', shell="dash"),
    Case(
        "dash_exec_and_read",
        'exec 3< "$T/text/lines.txt"; read a <&3; read b <&3; echo "$a,$b"',
        shell="dash",
    ),
    Case("dash_glob", 'cd "$T"; echo text/*.txt img/*/*.png', shell="dash"),
    Case("dash_dot", '. "$T/scripts/source_me.sh"; echo $SOURCED', shell="dash"),
    Case("dash_missing", 'cat < "$T/none"', exit=2, shell="dash"),
]

GLOB = [
    Case("glob_star", 'echo "$T"/text/*'),
    Case("glob_question_and_class", 'cd "$T/bin" && echo pag?.bin [sz]*.bin'),
    Case("globstar", 'shopt -s globstar; cd "$T" && printf "%s\\n" **/*.txt | sort'),
    Case(
        "globstar_everything",
        'shopt -s globstar dotglob; cd "$T" && printf "%s\\0" ** | sort -z | md5sum',
    ),
    Case("glob_directories_only", 'cd "$T" && echo */ links/*/'),
    Case("glob_no_match", 'echo "$T"/text/*.nothing'),
    Case("nullglob", 'shopt -s nullglob; echo "$T"/text/*.nothing .'),
    Case("extglob", 'shopt -s extglob\ncd "$T/text" && echo !(*.txt) @(x|hello.txt)'),
    Case("glob_odd_names", 'cd "$T/names" && printf "%q\\n" *'),
    Case("glob_dotglob", 'shopt -s dotglob; cd "$T/names" && printf "%q\\n" *'),
    Case("glob_many", 'cd "$T/many" && set -- *; echo $# $1 ${1500}'),
    Case("glob_through_outside_link", 'cd "$O" && echo */x dir/*.txt'),
    Case("glob_middle_component", 'echo "$T"/*/sub/*'),
    Case("for_loop_over_a_glob", 'for f in "$T"/hard/*; do [ -f "$f" ] && cat "$f"; done'),
    Case(
        "test_brackets",
        'cd "$T"; [ -e text/x ] && [[ -d text && ! -e none && -L links/up ]] && echo all',
    ),
    Case("completion", 'compgen -f "$T/te"; compgen -d "$T/" | sort'),
]

DIRECTORY = [
    Case("cd_and_relative", 'cd "$T/text" && cat hello.txt ./x ../hard/one'),
    Case(
        "cd_dotdot_across_the_boundary", 'cd "$T/text" && cd ../.. && pwd && cat "${T##*/}/text/x"'
    ),
    Case(
        "relative_path_out_of_the_tree",
        'cd "$T/text" && cat "../../${T##*/}/hard/one" ../../../../etc/passwd',
    ),
    Case("cd_into_from_the_parent", 'cd "$T/.." && cd "${T##*/}" && cd text && pwd && cat x'),
    Case(
        "absolute_link_by_proc",
        'cd "$T/links" && for p in "$PWD" /proc/self/cwd "/proc/self/root$PWD"; do '
        'cat "$p/outside"; head -1 < "$p/outside"; stat -L -c %s "$p/outside"; '
        'stat -c %F "$p/outside"; test -r "$p/outside"; echo $?; done',
    ),
    Case(
        "absolute_link_by_a_link",
        'ln -s "$T/links" here && cat here/outside && realpath here/outside && '
        'grep -c root here/outside && sed -n 1p here/outside && awk "NR==1" here/outside && '
        "test -f here/outside; echo $?",
    ),
    Case("cd_link", 'cd "$T/links/to_dir" && cat hello.txt && cd .. && pwd'),
    Case("cd_P_link", 'cd -P "$T/links/to_dir" && pwd && cd -P .. && pwd'),
    Case("cd_outside_link", 'cd "$O/dir" && cat x && /bin/pwd && cd sub && cat inner.txt'),
    Case("cd_physical_outside_link", 'cd -P "$O/dir" && pwd && cat ../hard/one'),
    Case("cd_empty_directory", 'cd "$T/empty_dir" && ls -A && pwd'),
    Case(
        "cd_deep",
        'cd "$T"/deep/level00/level01/level02/level03/level04 && cat here.txt && cd ../.. && cat here.txt',
    ),
    Case("cd_odd_name", 'cd "$T/names dir" && cat *'),
    Case("cd_missing_enoent", 'cd "$T/none"', exit=1),
    Case("cd_file_enotdir", 'cd "$T/text/x"', exit=1),
    Case("cd_loop_eloop", 'cd "$T/links/loop_a"', exit=1),
    Case(
        "pushd_popd",
        'pushd "$T/text" > /dev/null; pushd ../hard > /dev/null; dirs -p; popd > /dev/null; cat x',
    ),
    Case(
        "cwd_is_inherited",
        'cd "$T/text" && bash -c "cat hello.txt; pwd" && sh -c "cd ..; pwd; cat hard/one"',
    ),
    Case("cdpath", 'CDPATH="$T"; cd text && cat x'),
    Case("dash_cd", 'cd "$T/text" && cat x && cd .. && pwd && cd .. && pwd', shell="dash"),
    Case("oldpwd", 'cd "$T/text"; cd "$W"; cd - ; cat x'),
    Case("env_C", 'env -C "$T/text" cat x'),
    Case("find_execdir", 'find "$T/text" -name x -execdir cat {} \\;'),
]

START = [
    Case("exec_script_on_the_tree", '"$T/scripts/hello.sh" argument'),
    Case("exec_script_relative", 'cd "$T/scripts" && ./hello.sh argument'),
    Case("exec_script_with_interpreter_option", '"$T/scripts/options.sh"', exit=1, quiet=True),
    Case("exec_script_via_env", '"$T/scripts/env_python"'),
    Case("exec_script_found_in_path", 'PATH="$T/scripts:$PATH"; hello.sh argument'),
    Case("exec_binary_on_the_tree", '"$T/scripts/echo" from a binary'),
    Case("exec_binary_found_in_path", 'PATH="$T/scripts:$PATH" env echo found'),
    Case("exec_not_executable_eacces", '"$T/scripts/not_executable.sh"', exit=126),
    Case("exec_missing_enoent", '"$T/scripts/none"', exit=127),
    Case("exec_directory_eacces", '"$T/scripts"', exit=126),
    Case("exec_bad_interpreter", '"$T/scripts/bad_interpreter"', exit=127),
    Case("exec_no_hashbang_falls_to_the_shell", '"$T/scripts/no_hashbang"'),
    Case("exec_builtin_replaces_the_shell", 'exec "$T/scripts/echo" replaced'),
    Case("exec_through_a_link", 'ln -s "$T/scripts/hello.sh" run && ./run argument'),
    Case("sh_reads_its_script_from_the_tree", 'sh "$T/scripts/hello.sh" as_argument'),
    Case("python_runs_a_script_on_the_tree", 'python3 "$T/scripts/main.py"'),
    Case("python_m_from_cwd", 'cd "$T/scripts" && python3 -m main'),
    Case("xargs_runs_a_program_of_the_tree", 'echo a b c | xargs -n 1 "$T/scripts/echo"'),
    Case("command_v", 'PATH="$T/scripts:$PATH"; command -v hello.sh; type -p echo; hash -r'),
    Case("which", 'PATH="$T/scripts:$PATH" which hello.sh'),
    Case(
        "nohup_and_nice",
        'nice cat "$T/text/x"; setsid -w cat "$T/text/x"; timeout 20 cat "$T/text/x"',
    ),
    Case("child_with_an_emptied_environment", 'env -i /bin/cat < "$T/text/hello.txt"'),
    Case(
        "script_with_an_emptied_environment",
        'env -i PATH=/usr/bin:/bin sh -c "cat; echo done" < "$T/bin/small.bin" | md5sum',
    ),
]


@pytest.mark.parametrize("case, codec", combined(REDIRECTION, ["store", "lz4"]), ids=str)
def test_redirection(arena: Arena, case: Case, codec: str) -> None:
    run_case(arena, case, codec)


@pytest.mark.parametrize("case", GLOB + DIRECTORY, ids=lambda case: case.name)
def test_names(arena: Arena, case: Case) -> None:
    run_case(arena, case, "store")


@pytest.mark.parametrize("case, codec", combined(START, ["store", "lz4"]), ids=str)
def test_start(arena: Arena, case: Case, codec: str) -> None:
    run_case(arena, case, codec)
