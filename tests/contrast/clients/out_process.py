"""Ends and new programs of processes that write: exit, kill, fork, exec, spawn."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

from out_client import (
    ROOMY_S,
    D,
    Other,
    appears,
    facts,
    fork,
    forked,
    get,
    names,
    p,
    put,
    python,
    reaped,
    show,
    tell,
)

WRITE = os.O_WRONLY | os.O_CREAT
libc = ctypes.CDLL(None, use_errno=True)


def case_exit_without_close():
    code = "import sys; f = open(sys.argv[1], 'w'); f.write('buffered'); sys.keep = f"
    show("exit", python(code, p("f")), get(p("f")))
    code = "import os, sys; fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT); os.write(fd, b'x')"
    show("exit", python(code, p("g")), get(p("g")))


def case_underscore_exit():
    def work():
        os.write(os.open(p("f"), WRITE, 0o644), b"written")
        os._exit(3)

    show("exit", forked(work), get(p("f")))


def case_exit_by_an_exception():
    code = "import sys; f = open(sys.argv[1], 'w'); f.write('kept'); f.flush(); sys.exit(5)"
    show("exit", python(code, p("f")), get(p("f")))


def case_quick_exit_and_raw_exit():
    def quick():
        os.write(os.open(p("f"), WRITE, 0o644), b"quick")
        libc.quick_exit(4)

    def bare():
        os.write(os.open(p("g"), WRITE, 0o644), b"_Exit")
        libc._Exit(5)

    show("exit", forked(quick), forked(bare))
    show("now", get(p("f")), get(p("g")))


def kill_with(number, name):
    def work():
        os.write(os.open(p(name), WRITE, 0o644), b"half")
        os.kill(os.getpid(), number)
        time.sleep(ROOMY_S)

    return forked(work)


def case_killed_while_it_wrote():
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT):
        tell("ended", kill_with, number, "f")
        tell("list", names)
        tell("content", get, p("f"))
    tell("again", put, p("f"), b"by another")
    tell("content", get, p("f"))


def case_killed_over_an_old_version():
    put(p("f"), b"old")

    def work():
        os.write(os.open(p("f"), os.O_WRONLY | os.O_TRUNC), b"new")
        os.kill(os.getpid(), signal.SIGKILL)

    tell("ended", forked, work)
    tell("content", get, p("f"))
    tell("writable again", put, p("f"), b"newer")
    tell("content", get, p("f"))


def case_killed_while_others_have_it():
    """The last one decides: it ends as it should."""
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"mine, ")

    def work():
        os.write(fd, b"its")
        os.kill(os.getpid(), signal.SIGKILL)

    tell("ended", forked, work)
    os.close(fd)
    tell("published", appears, p("f"))
    tell("content", get, p("f"))


def case_killed_after_close():
    def work():
        put(p("f"), b"finished")
        os.kill(os.getpid(), signal.SIGKILL)

    show("ended", forked(work), get(p("f")))


def case_forked_child_closes_last():
    fd = os.open(p("f"), WRITE, 0o644)
    asked, asks = os.pipe()

    def work():
        os.close(asks)
        os.read(asked, 1)
        os.write(fd, b"child")

    child = fork(work)
    os.write(fd, b"parent ")
    os.close(fd)
    os.close(asks)
    show("child", reaped(child))
    show("now", appears(p("f")) and get(p("f")))


def case_child_outlives_the_parent():
    asked, asks = os.pipe()
    other = Other()

    def parent():
        fd = os.open(p("f"), WRITE, 0o644)
        os.write(fd, b"parent ")
        if os.fork() == 0:
            os.close(asks)
            os.read(asked, 1)
            os.write(fd, b"child")
            os._exit(0)

    tell("parent", forked, parent)
    other.tell("unfinished", f"os.stat({p('f')!r}).st_size")
    os.close(asks)
    other.end()
    until_s = time.monotonic() + ROOMY_S
    while get(p("f")) != b"parent child" and time.monotonic() < until_s:
        time.sleep(0.01)
    tell("content", get, p("f"))


def case_child_of_exec_writes():
    """A descriptor that survives exec."""
    fd = os.open(p("f"), WRITE, 0o644)
    os.write(fd, b"python ")
    os.set_inheritable(fd, True)
    show("exit", subprocess.run(["sh", "-c", f"printf sh >&{fd}"], pass_fds=[fd]).returncode)
    os.write(fd, b" python")
    os.close(fd)
    show("now", get(p("f")))


def case_exec_carries_it_on():
    def work():
        fd = os.open(p("f"), WRITE, 0o644)
        os.write(fd, b"before ")
        os.set_inheritable(fd, True)
        os.execvp("sh", ["sh", "-c", f"printf after >&{fd}"])

    show("exit", forked(work), get(p("f")))


def case_exec_closes_it():
    def work():
        fd = os.open(p("f"), WRITE, 0o644)
        os.write(fd, b"before")
        os.execvp("sh", ["sh", "-c", f"cat {p('f')}; echo $?"])

    show("exit", forked(work), get(p("f")))


def case_exec_that_fails():
    def work():
        fd = os.open(p("f"), WRITE, 0o644)
        os.write(fd, b"before ")
        with contextlib.suppress(OSError):
            os.execv("/no/such/program", ["x"])
        with contextlib.suppress(OSError):
            os.execv("/etc/passwd", ["x"])
        os.write(fd, b"after")
        os.close(fd)

    show("exit", forked(work), get(p("f")))


def case_static_programs_inherit():
    """An environment without the preload: the new program knows nothing of FanStore."""
    fd = os.open(p("f"), WRITE, 0o644)
    os.set_inheritable(fd, True)
    done = subprocess.run(["/bin/sh", "-c", f"printf plain >&{fd}"], env={}, pass_fds=[fd])
    os.close(fd)
    show("exit", done.returncode, get(p("f")))

    def work():
        fd = os.open(p("g"), WRITE, 0o644)
        os.write(fd, b"before ")
        os.set_inheritable(fd, True)
        os.execve("/bin/sh", ["sh", "-c", f"printf plain >&{fd}"], {})

    show("exit", forked(work))
    show("now", appears(p("g")) and get(p("g")))


def case_static_program_is_killed():
    def work():
        fd = os.open(p("f"), WRITE, 0o644)
        os.set_inheritable(fd, True)
        os.write(fd, b"x")
        os.execv(sys.executable, [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])

    tell("ended", forked, work)
    tell("content", get, p("f"))


def case_subprocess_stdout():
    for way in ("run", "check_call", "shell"):
        with open(p(way), "wb") as file:
            if way == "shell":
                subprocess.run("echo from a shell; echo error >&2", shell=True, stdout=file,
                               stderr=subprocess.STDOUT, check=True)  # fmt: skip
            else:
                getattr(subprocess, way)(["echo", way], stdout=file)
        show(way, get(p(way)))
    with open(p("run"), "rb") as file:
        show("stdin", subprocess.run(["cat"], stdin=file, capture_output=True).stdout)
    with open(p("env"), "wb") as file:
        subprocess.run(["/bin/echo", "no preload"], stdout=file, env={}, check=True)
    show("env", get(p("env")))


def case_subprocess_closed_before_it_ends():
    asked, asks = os.pipe()
    with open(p("f"), "wb") as file:
        process = subprocess.Popen(["cat"], stdin=asked, stdout=file)
    os.close(asked)
    os.write(asks, b"late words")
    os.close(asks)
    show("exit", process.wait())
    show("now", appears(p("f")) and get(p("f")))


def case_posix_spawn():
    actions = [(os.POSIX_SPAWN_OPEN, 1, p("f"), WRITE | os.O_TRUNC, 0o644)]
    child = os.posix_spawnp("echo", ["echo", "spawned"], os.environ, file_actions=actions)
    show("exit", reaped(child))
    show("now", appears(p("f")) and get(p("f")), facts(p("f")))
    fd = os.open(p("g"), WRITE, 0o644)
    actions = [(os.POSIX_SPAWN_DUP2, fd, 1), (os.POSIX_SPAWN_CLOSE, fd)]
    child = os.posix_spawnp("echo", ["echo", "dup2"], os.environ, file_actions=actions)
    os.close(fd)
    show("exit", reaped(child))
    show("now", appears(p("g")) and get(p("g")))


def case_popen_reads_what_was_written():
    put(p("f"), b"b\na\n")
    show("popen", os.popen(f"sort {p('f')}").read(), os.system(f"sort {p('f')} > {p('g')}"))
    show("now", get(p("g")))


def case_daemonized_writer():
    def parent():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(0.1)
                put(p("g"), b"by a daemon")
                os.rename(p("g"), p("f"))  # nobody is to see it empty
            os._exit(0)

    show("parent", forked(parent))
    show("now", appears(p("f")) and get(p("f")))


def case_multiprocessing():
    import multiprocessing

    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            show(method, pool.starmap(os.mkdir, [(p(f"{method}{i}"),) for i in range(4)]))
    show("now", names())


def case_vfork_in_a_shell_loop():
    script = f"cd {D} && for i in 1 2 3 4 5; do echo $i > f$i; cat f$i; done; ls"
    show("shell", subprocess.run(["sh", "-c", script], capture_output=True).stdout)
