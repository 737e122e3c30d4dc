"""Programs that the preload library cannot enter, and the files that they inherit.

They are linked statically, or gain privileges, and are given real files: with the number, the
content and the offset of ours, one description for all who share it. In the commands $1 is such a
program and $2 the same one linked as usual (clients/static_read.c).
"""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

import subprocess

import pytest
from arena import Arena
from harness import Case, compare
from programs import Programs

INHERITED = [
    Case("stdin", '"$1" < "$T/text/lines.txt" | md5sum'),
    Case("stdin_empty", '"$1" < "$T/text/empty.txt"; echo $?'),
    Case("stdin_several_blocks", '"$1" < "$T/bin/big.bin" | md5sum'),
    Case("another_number", 'exec 7< "$T/text/lines.txt"; "$1" -c 22 7; "$2" -c 22 7; "$1" -c 22 7'),
    Case("two_numbers_of_one", 'exec 5< "$T/text/lines.txt" 6<&5; "$1" -c 22 5; "$1" -c 22 6; "$1" -c 22 5'),
    Case("two_files", '"$1" -c 3 4 4< "$T/text/hello.txt" 5< "$T/text/words.txt"; exec 4< "$T/text/hello.txt" 5< "$T/text/words.txt"; "$1" -c 5 5; "$1" -c 5 4'),
    Case("after_another", '{ head -c 22; "$1" -c 22; } < "$T/text/lines.txt"'),
    Case("before_another", '{ "$1" -c 22; cat; } < "$T/text/lines.txt" | md5sum'),
    Case("between_reads_of_the_shell", '{ read a; "$1" -c 22; read b; "$1" -c 22; read c; echo "$a|$b|$c"; } < "$T/text/lines.txt"'),
    Case("in_turns", '{ for i in 1 2 3 4 5; do "$1" -c 22; "$2" -c 22; done; tail -n 1; } < "$T/text/lines.txt"'),
    # Who reads which part is chance; that each is read once is not.
    Case("at_once", 'd=$(mktemp -d); { for i in $(seq 20); do "$1" -c 22 > "$d/$i" & "$2" -c 22 > "$d/p$i" & done; wait; } < "$T/text/lines.txt"; md5sum "$d"/* | cut -c 1-32 | sort; rm -r "$d"'),
    Case("in_a_loop_that_reads", '{ for i in $(seq 30); do read -r a; "$1" -c 22; done; cat; } < "$T/text/lines.txt" | md5sum'),
    Case("of_a_subshell", '( ( "$1" -c 22; cat | head -c 22 ); "$1" -c 22 ) < "$T/text/no_newline.txt"'),
    Case("what_it_sees", 'exec 0< "$T/text/lines.txt"; read a; "$1" -i; "$2" -i; "$1" -i'),
    Case("mapped", '"$1" -m < "$T/bin/big.bin"; "$2" -m < "$T/bin/big.bin"'),
    Case("not_to_be_changed", '"$1" -w < "$T/text/hello.txt"; "$1" < "$T/text/hello.txt"'),
    Case("script_of_it", 'printf "#!%s\\n" "$1" > "$W/s"; chmod +x "$W/s"; "$W/s" 2>&1 < "$T/text/lines.txt" | md5sum'),
    Case("script_of_a_script", 'printf "#!%s\\n" "$1" > "$W/s"; printf "#!%s/s\\n" "$W" > "$W/t"; chmod +x "$W/s" "$W/t"; "$W/t" < "$T/text/lines.txt" | md5sum'),
    Case("by_exec", '(read a; exec "$1" -c 22) < "$T/text/lines.txt"'),
    Case("by_env", '(read a; exec env -i "$1" -c 22) < "$T/text/lines.txt"'),
    Case("that_starts_another", '{ "$1" -x "$2" -c 22; "$2" -c 22; "$1" -x "$1" -c 22; } < "$T/text/lines.txt"'),
    Case("by_find", r'find "$T/text" -name hello.txt -exec "$1" -c 22 \; < "$T/text/lines.txt"'),
    Case("set_user_id", 'cp "$2" "$W/s"; chmod u+s "$W/s"; { "$W/s" -c 22; cat; } < "$T/text/lines.txt" | md5sum'),
    Case("closed_on_exec", 'python3 -c \'import os, sys; os.open(sys.argv[2] + "/text/x", 0); os.execv(sys.argv[1], ["s", "-c", "1", "3"])\' "$1" "$T"', exit=1),
    Case("a_number_over_a_closed_one", 'exec 5< "$T/text/lines.txt"; exec 5< "$T/text/hello.txt"; "$1" -c 6 5; exec 5<&-; "$1" -c 6 5', exit=1),
]  # fmt: skip

# What subprocess (vfork), posix_spawn and a failed exec do.
PYTHON = r"""
import os, subprocess, sys
static, tree = sys.argv[1], os.environ["T"]
lines = os.path.join(tree, "text/lines.txt")
run = lambda file, count: subprocess.run([static, "-c", str(count)], stdin=file, stdout=-1).stdout
with open(lines, "rb", buffering=0) as file:
    for i in range(60):
        print(run(file, 22), file.read(22), file.tell())
    os.lseek(file.fileno(), -22, os.SEEK_CUR)
    print(run(file, 22), os.pread(file.fileno(), 22, 0))
    file.seek(0, os.SEEK_END)
    print(run(file, 22), file.read())
for i in range(200):
    with open(lines, "rb", buffering=0) as file:
        file.seek(22 * i)
        print(run(file, 22), file.read(22))
spawn = lambda actions: os.waitpid(os.posix_spawn(static, ["s", "-c", "22"], os.environ, file_actions=actions), 0)
sys.stdout.flush()
print(spawn([(os.POSIX_SPAWN_OPEN, 0, lines, os.O_RDONLY, 0)])[1])
file = os.open(lines, os.O_RDONLY)
print(spawn([(os.POSIX_SPAWN_DUP2, file, 0)])[1], spawn([(os.POSIX_SPAWN_DUP2, file, 0)])[1])
print(os.read(file, 22), os.lseek(file, 0, os.SEEK_CUR))
os.set_inheritable(file, True)
wrong = os.path.join(os.environ["W"], "wrong")
with open(static, "rb") as program, open(wrong, "wb") as copy:
    image = bytearray(program.read())
    image[16] = 9  # no type of program that the kernel knows
    copy.write(image)
os.chmod(wrong, 0o755)
for path in ("/nonexistent", wrong):
    try:
        os.execv(path, ["s"])
    except OSError as error:
        print(error.errno)
    print(os.read(file, 22), os.lseek(file, 0, os.SEEK_CUR), os.get_inheritable(file))
if os.fork() == 0:
    os.read(file, 22)
    os._exit(0)
os.wait()
print(os.read(file, 22))
"""


@pytest.fixture(scope="session")
def readers(programs: Programs) -> tuple[str, str]:
    """The program that no preload enters, and one that it does."""
    try:
        static = programs.path("static_read.c", "-O1", "-static")
    except subprocess.CalledProcessError:
        pytest.skip("libc cannot be linked statically here")
    return static, programs.path("static_read.c", "-O1")


def run(arena: Arena, readers: tuple[str, str], case: Case, codec: str) -> None:
    compare(arena, ["bash", "-c", case.command, "bash", *readers], codec, exit=case.exit)


@pytest.mark.parametrize("case", INHERITED, ids=lambda case: case.name)
def test_inherited(arena: Arena, readers: tuple[str, str], case: Case) -> None:
    run(arena, readers, case, "store")


@pytest.mark.parametrize("name", ["stdin_several_blocks", "before_another", "at_once", "mapped"])
def test_inherited_compressed(arena: Arena, readers: tuple[str, str], name: str) -> None:
    run(arena, readers, next(case for case in INHERITED if case.name == name), "lz4")


def test_of_python(arena: Arena, readers: tuple[str, str]) -> None:
    compare(arena, ["python3", "-c", PYTHON, readers[0]], "store")
