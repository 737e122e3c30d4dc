"""fanstore run --trap: programs that no library can enter, beside a plain directory."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, children, command_of, make_stage, process_name, runs, wait_for
from terminal import drain, on_terminal, state

CLIENTS = Path(__file__).with_name("clients")

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the clients make system calls of x86_64"
)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The static clients, built."""
    folder = tmp_path_factory.mktemp("clients")
    for source in sorted(CLIENTS.glob("*.c")):
        own = ["-nostdlib"] if source.stem == "raw" else ["-pthread"]
        target = str(folder / source.stem)
        built = subprocess.run(
            ["cc", "-static", "-w", "-O1", *own, "-o", target, str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            pytest.skip(f"no static programs can be built here: {built.stderr[-300:]}")
    return folder


def tree(stage: Stage, clients: Path) -> Path:
    """A source with files, links and programs."""
    files = {
        "a.txt": b"hello\n",
        "big.bin": bytes(range(256)) * 1200,
        "empty": b"",
        "sub/deep/x": b"deep\n",
        "s.sh": b"#!/bin/sh\necho script $0 $1\n",
    }
    source = stage.source(files=files)
    for name, to in (("la", "a.txt"), ("link", "sub/deep"), ("loop", "loop"), ("dangling", "no")):
        (source / name).symlink_to(to)
    shutil.copy(clients / "rest", source / "program")
    (source / "s.sh").chmod(0o755)
    return source


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def plain_output(*command: str) -> str:
    """What a program prints without FanStore."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def output_options(stage: Stage) -> tuple[str, ...]:
    return ("--trap", "--quiet", "--output-dir", str(stage.path / "out"))


def test_a_static_program_reads_as_on_a_plain_directory(stage: Stage, clients: Path) -> None:
    source = tree(stage, clients)
    dataset = stage.dataset(source, "data", "--codec", "zstd")
    reads = str(clients / "reads")
    (stage.path / "to-plain").symlink_to(source)
    (stage.path / "to-mount").symlink_to(stage.mount)
    plain = plain_output(reads, str(source), str(stage.path / "to-plain"))
    done = stage.run(
        dataset, reads, str(stage.mount), str(stage.path / "to-mount"), options=("--trap",)
    )
    assert done.stdout.splitlines() == plain.splitlines()
    assert stage.leftovers() == []


def test_the_prefix_may_be_the_original_directory(stage: Stage, clients: Path) -> None:
    source = tree(stage, clients)
    dataset = stage.dataset(source)
    plain = plain_output(str(clients / "reads"), str(source))
    before = source.stat()
    (source / "later").write_text("not in the dataset")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    where = ("--dataset", str(dataset), "--mount", str(source))
    done = stage.call("run", *where, "--trap", "--", str(clients / "reads"), str(source))
    assert done.stdout.splitlines() == plain.splitlines()


def test_a_static_program_writes_as_on_a_plain_directory(stage: Stage, clients: Path) -> None:
    source = tree(stage, clients)
    dataset = stage.dataset(source)
    writes = str(clients / "writes")
    done = stage.run(dataset, writes, str(stage.mount), options=output_options(stage))
    plain = plain_output(writes, str(source))
    assert done.stdout.splitlines() == plain.splitlines()
    made = {p.name: p.read_bytes() for p in (stage.path / "out" / "new").iterdir()}
    assert made == {p.name: p.read_bytes() for p in (source / "new").iterdir()}
    assert stage.leftovers() == []


SCENES = """
cd {clients}
./raw {m}/a.txt; ./raw {m}/none; echo raw $?
./rest interrupted {m}/a.txt
./rest uring; echo uring $?
./rest exec {m}/s.sh one
./rest exec {m}/program cat {m}/a.txt
{m}/program cat {m}/sub/deep/x
./rest exec {m}/none; echo exec $?
./rest exec {m}/a.txt; echo exec $?
./rest write {m}/made static; cat {m}/made; ./rest cat {m}/made
echo dynamic >{m}/other; ./rest cat {m}/other
./rest killed {m}/half; test -e {m}/half; echo half $?
: >{out}/daemon; ./rest daemon {m}/a.txt {out}/daemon
until test "$(wc -l <{out}/daemon)" = 2; do sleep 0.1; done
cat {out}/daemon
cd {m}/link; {clients}/rest cat x; cd -P ..; {clients}/rest cat deep/x
sh -c 'exec {clients}/rest cat /proc/self/task/$$/cwd/deep/x'
{clients}/rest cat /proc/self/fd/7 7<{m}/a.txt; echo inherited $?
env -i {clients}/rest cat {m}/a.txt
"""

SHOWN = """hello
raw 2
0 failed, hit
uring 38
script {m}/s.sh one
hello
deep
exec 2
exec 13
static
static
dynamic
half 0
hello
0
deep
deep
deep
hello
inherited 0
hello
"""


def test_one_thing_after_the_other(stage: Stage, clients: Path) -> None:
    dataset = stage.dataset(tree(stage, clients))
    out = stage.path / "own"
    out.mkdir()
    script = SCENES.format(clients=clients, m=stage.mount, out=out)
    done = stage.run(dataset, "bash", "-c", script, options=output_options(stage))
    shown = SHOWN.format(m=stage.mount)
    assert done.stdout.splitlines() == shown.splitlines(), done.stderr
    names = {p.name for p in (stage.path / "out").iterdir()}
    assert names == {"made", "other", "half.partial"}
    assert stage.leftovers() == []


ABSOLUTE = """
import os
for path in (os.path.abspath("x"), os.getcwd() + "/../../a.txt"):
    print(open(path).read(), os.path.getsize(path))
"""


def test_programs_that_static_ones_start(stage: Stage, clients: Path) -> None:
    """Many at once, while the name that leads to them is made; one that asks where it stands."""
    dataset = stage.dataset(tree(stage, clients))
    script = (
        f"{clients}/around many 150 {stage.mount}/program cat {stage.mount}/empty; "
        f"{clients}/around stand {stage.mount}/sub/deep "
        + shlex.join([sys.executable, "-c", ABSOLUTE])
    )
    done = stage.run(dataset, "bash", "-c", script, options=("--trap",))
    assert done.stdout.split() == ["0", "failed", "deep", "5", "hello", "6"], done.stderr


def test_a_way_out_and_back_leaves_the_original_directory_alone(
    stage: Stage, clients: Path
) -> None:
    """From a real directory of ours, through a link that leads out of it."""
    source = tree(stage, clients)
    beside = stage.path / "beside"
    beside.mkdir()
    (source / "away").symlink_to(beside)
    where = ("--dataset", str(stage.dataset(source)), "--mount", str(source), "--trap")
    before = sorted((str(path), path.lstat().st_mode) for path in source.rglob("*"))
    around, rest = str(clients / "around"), str(clients / "rest")
    way = f"away/../{source.name}/link"
    stage.call("run", *where, "--", around, "stand", str(source), rest, "enter", way)
    assert before == sorted((str(path), path.lstat().st_mode) for path in source.rglob("*"))
    assert not any(beside.iterdir())


def test_links_lead_out_of_a_mount(stage: Stage, clients: Path) -> None:
    source = tree(stage, clients)
    beside = stage.path / "beside"
    beside.mkdir()
    (beside / "f").write_text("beside\n")
    (source / "sub" / "away").symlink_to(beside)
    (source / "file").symlink_to(beside / "f")
    rest, mount = clients / "rest", stage.mount
    script = (
        f"{rest} cat {mount}/file; {rest} cat {mount}/sub/away/f; {rest} enter {mount}/sub/away; "
        f"echo $?; {rest} enter {mount}/sub/away/../mount/link; echo $?; "
        f"{rest} write {mount}/sub/away/g made; {rest} cat {mount}/a.txt"
    )
    done = stage.run(stage.dataset(source), "bash", "-c", script, options=("--trap",))
    assert done.stdout.split() == ["beside", "beside", "0", "0", "hello"], done.stderr
    assert (beside / "g").read_text() == "made\n"
    assert stage.leftovers() == []


def test_a_program_of_an_original_directory_stays_where_it_is(stage: Stage, clients: Path) -> None:
    """Found by a link of another mount, whose prefix FanStore made."""
    source = tree(stage, clients)
    dataset = stage.dataset(source)
    (stage.path / "other").mkdir()
    (stage.path / "other" / "up").symlink_to("..")
    other = stage.dataset(stage.path / "other", "other-data")
    both = ("--dataset", str(other), "--mount", str(stage.mount),
            "--dataset", str(dataset), "--mount", str(source))  # fmt: skip
    start = (str(clients / "rest"), "exec", f"{stage.mount}/up/{source.name}/program")
    before = (source / "program").stat()
    done = stage.call("run", *both, "--trap", "--", *start, "cat", f"{source}/a.txt")
    assert done.stdout == "hello\n"
    assert (source / "program").stat().st_ino == before.st_ino


UMASKS = """
umask 027; mkdir {m}/d; umask 0; : >{m}/f; umask 077; : >{m}/g
stat -c %a {m}/d {m}/f {m}/g; {clients}/rest cat {m}/a.txt
ls -l /proc/$PPID/fd | grep -c signalfd; test -e /proc/$$/fd/0 || echo closed
"""


def test_a_closed_stream_and_no_unshare(stage: Stage, clients: Path) -> None:
    """What the supervisor holds does not take the stream's place; threads that a container gives
    no umask each answer all the same."""
    dataset = stage.dataset(tree(stage, clients))
    script = UMASKS.format(m=stage.mount, clients=clients)
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), *output_options(stage))
    mine = (sys.executable, "-m", "fanstore", "run", *where, "--", "bash", "-c", script)
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "-", str(clients / "around"), "confined", *mine],
        env=stage.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    shown = ["750", "666", "600", "hello", "1", "closed"]
    assert (done.returncode, done.stdout.split()) == (0, shown), done.stderr


@pytest.mark.soak
def test_exit_codes(stage: Stage) -> None:
    dataset = stage.dataset()
    stage.run(dataset, "sh", "-c", "kill -9 $$", options=("--trap",), code=137)
    done = stage.run(dataset, "no-such-command", options=("--trap",), code=127)
    assert "fanstore: error: no-such-command: No such file" in done.stderr
    stage.run(dataset, str(stage.path), options=("--trap",), code=126)
    again = ("exec", "--trap", "--", "true")
    inner = [sys.executable, "-m", "fanstore", *again]
    done = stage.run(dataset, *inner, options=("--trap",), code=125)
    assert "another seccomp listener" in done.stderr


def supervisor_of(wrapper: int) -> int:
    """The supervisor's process, 0 where there is none yet."""
    found = [command_of(wrapper)]
    for name in ("fanstore-guard", "fanstore-trap"):
        found = [p for parent in found if parent for p in children(parent)]
        found = [p for p in found if process_name(p) == name]
    return found[0] if found else 0


def parent_of(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


@pytest.mark.parametrize("whose", ["supervisor", "guard", "by name"])
def test_all_that_came_of_the_command_ends_with_the_supervisor(
    stage: Stage, clients: Path, whose: str
) -> None:
    """Daemons, orphans and a chain of processes, too: nobody has the pipe any more."""
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--trap", "--")
    with stage.running("run", *where, str(clients / "rest"), "spread") as run:
        assert run.stdout is not None
        supervisor = int(run.stdout.readline())
        guard = parent_of(supervisor)
        named = [command_of(run.pid), supervisor]  # as pkill, with -f and without, finds them
        assert b"fanstore-trap" not in Path(f"/proc/{guard}/cmdline").read_bytes()
        for pid in {"supervisor": [supervisor], "guard": [guard], "by name": named}[whose]:
            os.kill(pid, signal.SIGKILL)
        _, stderr = run.communicate(timeout=30)
        assert run.returncode == (137 if whose == "by name" else 125)
        assert ("the supervisor was killed" in stderr) == (whose != "by name")
    wait_for(lambda: stage.leftovers() == [], "the end of it all")


def test_what_the_command_left_ends_with_the_supervisor(stage: Stage, clients: Path) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    stage.call("start", *where)
    try:
        with stage.running("exec", "--trap", "--", str(clients / "rest"), "spread", "on") as run:
            assert run.stdout is not None
            supervisor = int(run.stdout.readline())
            assert run.wait(timeout=60) == 0
            os.kill(supervisor, signal.SIGKILL)
            run.communicate(timeout=30)
    finally:
        stage.call("stop")
    assert stage.leftovers() == []


@pytest.mark.parametrize(("whose", "code"), [("supervisor", 125), ("stand-in", 137)])
def test_a_killed_process_of_ours_takes_the_command_along(
    stage: Stage, clients: Path, whose: str, code: int
) -> None:
    """Nothing stays of what was made for the kernel's sake, either."""
    source = tree(stage, clients)
    (source / "away").symlink_to("/tmp")
    dataset = stage.dataset(source)
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--trap", "--")
    ready = stage.path / "ready"
    script = (
        f"{clients}/rest exec {stage.mount}/s.sh; {clients}/rest enter {stage.mount}/link || exit;"
        f" {clients}/rest enter {stage.mount}/away || exit;"
        f" test -L {stage.mount}/link && echo $$ >{ready}.new; mv {ready}.new {ready}; "
        "exec sleep 60"
    )
    with stage.running("run", *where, "sh", "-c", script) as run:
        wait_for(ready.exists, "the command")
        command = int(ready.read_text())
        assert (stage.mount / "link").is_symlink() and (stage.mount / "away").is_symlink()
        assert (stage.mount / "s.sh").is_symlink()
        os.kill(
            supervisor_of(run.pid) if whose == "supervisor" else command_of(run.pid),
            signal.SIGKILL,
        )
        _, stderr = run.communicate(timeout=60)
        assert run.returncode == code
        assert ("the supervisor was killed" in stderr) == (whose == "supervisor")
        assert "left in the mount prefix" not in stderr
        wait_for(lambda: not runs(command), "the command's end")
    wait_for(lambda: stage.leftovers() == [], "the end of it all")


def test_signals_are_passed_on(stage: Stage) -> None:
    script = f"trap 'echo hit; exit 7' USR1; touch {stage.path}/ready; while :; do sleep 0.1; done"
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--trap")
    with stage.running("run", *where, "--", "bash", "-c", script) as run:
        wait_for((stage.path / "ready").exists, "the command")
        run.send_signal(signal.SIGUSR1)
        assert run.communicate(timeout=60)[0] == "hit\n"
        assert run.returncode == 7


def on_terminal_trapped(stage: Stage, script: str) -> list[str]:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--trap")
    return [sys.executable, "-m", "fanstore", "run", *where, "--", "bash", "-c", script]


def test_ctrl_c_reaches_the_command_once(stage: Stage) -> None:
    script = (
        f"trap 'echo hit' INT; touch {stage.path}/ready; for i in $(seq 10); do sleep 0.1; done"
    )
    pid, terminal = on_terminal(stage, on_terminal_trapped(stage, script))
    wait_for((stage.path / "ready").exists, "the command")
    time.sleep(0.1)
    os.write(terminal, b"\x03")
    shown = drain(terminal)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert shown.count("hit") == 1
    assert stage.leftovers() == []


def test_ctrl_z_and_fg(stage: Stage) -> None:
    go = stage.path / "go"
    script = f"echo $$ >{stage.path}/ready; until test -e {go}; do sleep 0.1; done; echo done"
    job = shlex.join(on_terminal_trapped(stage, script))
    shell = ["bash", "-mc", f"{job}; echo stopped $?; read; fg >/dev/null; echo ended $?"]
    pid, terminal = on_terminal(stage, shell)
    ready = stage.path / "ready"
    wait_for(lambda: ready.exists() and ready.read_text(), "the command")
    command = int(ready.read_text())
    os.write(terminal, b"\x1a")
    wait_for(lambda: state(command) == "T", "the command to stop")
    go.touch()
    os.write(terminal, b"\n")
    shown = drain(terminal)
    os.close(terminal)
    os.waitpid(pid, 0)
    words = [line for line in shown.split("\r\n") if line.startswith(("stopped", "done", "ended"))]
    assert words == ["stopped 148", "done", "ended 0"]


def test_exec_under_a_daemon(stage: Stage, clients: Path) -> None:
    dataset = stage.dataset(tree(stage, clients))
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    job = json.loads(stage.call("start", *where, "--json").stdout)
    try:
        read = ("exec", "--trap", "--", str(clients / "raw"))
        assert stage.call(*read, str(stage.mount / "a.txt")).stdout == "hello\n"
        assert list(Path(job["job_directory"]).glob("trap-*")) == []
        stage.call(*read, str(stage.mount / "none"), code=2)
    finally:
        stage.call("stop")
    assert stage.leftovers() == []


@needs_ranks
def test_two_ranks(tmp_path: Path, clients: Path) -> None:
    stage = make_rank_stage(tmp_path, 2)
    files = {f"f{n}": bytes([65 + n]) * 100_000 for n in range(8)}
    dataset = stage.dataset(stage.source(files=files))
    script = (
        f"for n in 0 1 2 3 4 5 6 7; do {clients}/raw $FANSTORE_MOUNT_PREFIX/f$n || exit 1; done"
        f" | sha256sum >{tmp_path}/sum.$FANSTORE_RANK;"
        f"{clients}/rest write $FANSTORE_MOUNT_PREFIX/own.$FANSTORE_RANK text"
    )
    options = ("--trap", "--output-dir", str(tmp_path / "out"))
    stage.run_ranks(2, dataset, "bash", "-c", script, options=options)
    content = b"".join(files.values())
    expected = subprocess.run(["sha256sum"], input=content, capture_output=True, check=True).stdout
    assert (tmp_path / "sum.0").read_bytes() == (tmp_path / "sum.1").read_bytes() == expected
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"own.0", "own.1"}
    stage.assert_clean()


GO = """package main
import ("fmt"; "os"; "sync")
func main() {
    root := os.Args[1]
    entries, err := os.ReadDir(root)
    for _, e := range entries { fmt.Println(e.Name(), e.IsDir()) }
    var wait sync.WaitGroup
    for i := 0; i < 50; i++ {
        wait.Add(1)
        go func() {
            defer wait.Done()
            if data, err := os.ReadFile(root + "/a.txt"); err != nil || string(data) != "hello\\n" {
                fmt.Println("wrong", err)
            }
        }()
    }
    wait.Wait()
    fmt.Println(os.WriteFile(root + "/made", []byte("go"), 0o600), err)
}
"""


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go")
def test_a_go_program(stage: Stage, clients: Path) -> None:
    source = tree(stage, clients)
    (stage.path / "main.go").write_text(GO)
    program = str(stage.path / "main")
    env = {**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(stage.path / "cache")}
    subprocess.run(["go", "build", "-o", program, str(stage.path / "main.go")], env=env, check=True)
    dataset = stage.dataset(source)
    done = stage.run(dataset, program, str(stage.mount), options=output_options(stage))
    assert done.stdout == plain_output(program, str(source))
    assert (stage.path / "out" / "made").read_text() == "go"


def test_a_program_finds_libraries_beside_itself(stage: Stage) -> None:
    """By $ORIGIN, and links of /proc that lead into the mount."""
    source = stage.source(files={"a.txt": b"hello\n", "far/b.txt": b"far\n"})
    for name, text in (("f", "int f(void) { return 7; }"), ("p", "int f(void); int main(void) "
                       "{ return f(); }")):  # fmt: skip
        (stage.path / f"{name}.c").write_text(text)
    build = ("cc", "-o")
    near = ["-L", str(source), "-lf", "-Wl,-rpath,$ORIGIN"]
    library = (*build, source / "libf.so", "-shared", "-fPIC", stage.path / "f.c")
    subprocess.run(library, check=True)
    subprocess.run((*build, source / "program", stage.path / "p.c", *near), check=True)
    (source / "absolute").symlink_to(stage.path / "p.c")
    dataset = stage.dataset(source, "data")
    script = (
        '"$1/program"; echo $?; cd "$1" && ./program; echo $?; cat /proc/self/cwd/absolute; '
        'cat "/proc/self/root$1/a.txt" "/proc/self/root/$1/far/b.txt"; cat /proc/self/cwd/a.txt'
    )
    expected = plain_output("sh", "-c", script, "sh", str(source))
    assert expected.startswith("7\n7\nint f")
    # Where the library is not there either, the system calls alone are served.
    for before in ((), ("env", "-u", "LD_PRELOAD")):
        command = (*before, "sh", "-c", script, "sh", str(stage.mount))
        done = stage.run(dataset, *command, options=("--trap", "--quiet"))
        assert done.stdout == expected


PAIRS = """
import os, sys
os.makedirs("d", exist_ok=True)
os.symlink("to", "d/link")  # from now on paths are looked at name by name
os.chdir("d")
here = os.getcwd()
for change in (os.link, os.rename):
    for old, new in ("", ""), ("", here + "/"), (here + "/", ""), (here + "/", here + "/"):
        open("x", "w").close()
        try:
            change(old + "x", new + "y")
            print(change.__name__, sorted(os.listdir()))
            os.unlink("y")
        except OSError as error:
            print(change.__name__, error)
"""


def test_pairs_of_names_in_a_directory_of_outputs(stage: Stage) -> None:
    """Where the preload library is in the program, too, each makes its part of the way."""
    data = stage.dataset()
    plain = stage.path / "beside"
    plain.mkdir()
    command = [sys.executable, "-c", PAIRS]
    there = subprocess.run(command, cwd=plain, capture_output=True, text=True, check=True)
    done = stage.run(
        data, "sh", "-c", f'cd "$0" && exec {shlex.join(command)}', str(stage.mount),
        options=("--trap", "--output-dir", str(stage.path / "out")),
    )  # fmt: skip
    assert done.stdout == there.stdout


def test_outputs_of_its_own(stage: Stage, clients: Path) -> None:
    """Locks end with their descriptor, programs run once they are written, and files without a name
    are as good as others."""
    data = stage.dataset()
    plain = stage.path / "beside"
    plain.mkdir()
    own = str(clients / "own")
    there = subprocess.run([own, own, str(plain)], capture_output=True, text=True, check=True)
    options = ("--trap", "--output-dir", str(stage.path / "out"))
    done = stage.run(data, own, own, str(stage.mount), options=options)
    assert done.stdout == there.stdout
    assert "0 of 200 locks were busy" in done.stdout
    assert "0 of 20 programs did not run" in done.stdout
