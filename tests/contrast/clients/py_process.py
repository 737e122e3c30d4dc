"""Processes and threads: what is shared, what is inherited, and what keeps working."""

# ruff: noqa: SIM115 (a client opens files as carelessly as programs do)

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

from contrast_client import BIG, HELLO, LINES, MID, T, W, fails, run, same, show


def digest(path):
    import hashlib

    with open(path, "rb") as file:
        return hashlib.md5(file.read()).hexdigest()


def pictures():
    return sorted(os.path.join(f, n) for f, _, names in os.walk(f"{T}/bin") for n in names)


def pool(method):
    with multiprocessing.get_context(method).Pool(2) as workers:
        show(method, workers.map(digest, pictures()))


def case_multiprocessing_fork():
    pool("fork")


def case_multiprocessing_spawn():
    pool("spawn")


def case_multiprocessing_forkserver():
    pool("forkserver")


def case_process_pool_executor():
    with ProcessPoolExecutor(2) as workers:
        show("digests", list(workers.map(digest, pictures())))


def send_open_file(connection, path):
    connection.send(os.read(os.open(path, os.O_RDONLY), 5))


def case_process_with_a_pipe():
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=send_open_file, args=(theirs, HELLO)
    )
    process.start()
    show("received", ours.recv())
    process.join(20)
    show("exit", process.exitcode)


def in_child(action):
    """Forks, runs `action` in the child, and gives its exit status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            print("child:", repr(error), flush=True)
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def case_fork_shares_the_offset():
    fd = os.open(HELLO, os.O_RDONLY)
    os.read(fd, 2)
    show("exit", in_child(lambda: show("child", os.read(fd, 4))))
    show("parent", os.read(fd, 100))


def case_fork_then_separate_opens():
    show("exit", in_child(lambda: show("child", open(HELLO).read())))
    show("parent", open(HELLO).read())


def case_close_in_the_child_leaves_the_parent():
    fd = os.open(HELLO, os.O_RDONLY)
    show("exit", in_child(lambda: os.close(fd)))
    show("parent", os.read(fd, 5), os.fstat(fd).st_size)


def case_close_in_the_parent_leaves_the_child():
    fd = os.open(HELLO, os.O_RDONLY)
    go_read, go_write = os.pipe()

    def child():
        os.read(go_read, 1)
        show("child", os.read(fd, 100))

    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    os.close(fd)
    other = os.open(MID, os.O_RDONLY)
    os.write(go_write, b"x")
    os.waitpid(pid, 0)
    show("parent", os.read(other, 4))


def case_fork_of_a_fork():
    fd = os.open(LINES, os.O_RDONLY)

    def child():
        show("child", os.read(fd, 24))
        in_child(lambda: show("grandchild", os.read(fd, 24)))

    show("exit", in_child(child), os.read(fd, 24))


def case_many_children_share_one_offset():
    fd = os.open(LINES, os.O_RDONLY)
    size = os.fstat(fd).st_size
    reader, writer = os.pipe()
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            total = 0
            while part := os.read(fd, 24):
                total += len(part)
            os.write(writer, b"%d\n" % total)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    os.close(writer)
    same("each byte once", sum(map(int, os.read(reader, 1000).split())) == size, True)


def checksum(path):
    """Takes no lock of a library, so that a child of a threaded process may call it."""
    fd = os.open(path, os.O_RDONLY)
    total = 0
    while part := os.read(fd, 65536):
        total = zlib.crc32(part, total)
    os.close(fd)
    return total


def case_fork_with_threads_reading():
    stop = threading.Event()

    def read_on():
        while not stop.is_set():
            checksum(MID)
            os.listdir(f"{T}/text")

    threads = [threading.Thread(target=read_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = [in_child(lambda: checksum(BIG)) for _ in range(20)]
    stop.set()
    for thread in threads:
        thread.join(20)
    same("every child ended well", codes, [0] * 20)


def case_subprocess_stdin():
    with open(LINES) as file:
        file.buffer.raw.seek(24)
        done = subprocess.run(["head", "-n", "1"], stdin=file, capture_output=True)
        show("stdin", done.stdout)


def case_subprocess_stdin_big():
    with open(BIG, "rb") as file:
        show("stdin", subprocess.run(["md5sum"], stdin=file, capture_output=True).stdout)


def case_subprocess_cwd():
    for cwd in (f"{T}/text", f"{T}/links/to_dir", T):
        show(
            cwd,
            subprocess.run(
                ["sh", "-c", "pwd -P; cat x text/x 2>&1"], cwd=cwd, capture_output=True
            ).stdout,
        )
    fails("ENOENT", subprocess.run, ["true"], cwd=f"{T}/none")
    fails("ENOTDIR", subprocess.run, ["true"], cwd=HELLO)


def case_subprocess_pass_fds():
    fd = os.open(HELLO, os.O_RDONLY)
    os.read(fd, 3)
    done = subprocess.run(["cat", f"/dev/fd/{fd}"], pass_fds=[fd], capture_output=True)
    show("by name", done.stdout, done.returncode)
    done = subprocess.run(["sh", "-c", f"head -c 4 <&{fd}"], pass_fds=[fd], capture_output=True)
    show("by number", done.stdout)
    show("offset moved", os.read(fd, 100))


def case_subprocess_closes_fds():
    fd = os.open(HELLO, os.O_RDONLY)
    os.set_inheritable(fd, True)
    done = subprocess.run(["sh", "-c", f"cat <&{fd}"], capture_output=True)
    show("closed", done.returncode != 0, done.stdout)
    done = subprocess.run(["sh", "-c", f"cat <&{fd}"], close_fds=False, capture_output=True)
    show("kept", done.returncode, done.stdout)


def case_close_on_exec():
    fd = os.open(HELLO, os.O_RDONLY)
    done = subprocess.run(["sh", "-c", f"cat <&{fd}"], close_fds=False, capture_output=True)
    show("not inherited", done.returncode != 0, done.stdout)


def case_python_child_inherits():
    fd = os.open(LINES, os.O_RDONLY)
    os.lseek(fd, 48, os.SEEK_SET)
    code = f"import os; print(os.read({fd}, 23), os.fstat({fd}).st_size)"
    done = subprocess.run([sys.executable, "-c", code], pass_fds=[fd], capture_output=True)
    show("child", done.stdout, os.read(fd, 23))


def case_grandchild_inherits():
    fd = os.open(LINES, os.O_RDONLY)
    done = subprocess.run(
        ["sh", "-c", f"sh -c 'head -c 24 <&{fd}'; head -c 24 <&{fd}"],
        pass_fds=[fd],
        capture_output=True,
    )
    show("children", len(done.stdout), done.stdout[:24])


def case_subprocess_stdout_left_alone():
    with open(f"{W}/out", "wb") as out:
        subprocess.run(["cat", HELLO, MID], stdout=out, check=True)
    show("written", os.path.getsize(f"{W}/out"))


def case_popen_pipeline():
    first = subprocess.Popen(["cat", LINES], stdout=subprocess.PIPE)
    second = subprocess.run(["wc", "-l"], stdin=first.stdout, capture_output=True)
    show("lines", second.stdout, first.wait(20))


def case_vfork_child_leaves_the_parent_alone():
    fds = [os.open(path, os.O_RDONLY) for path in (HELLO, MID, LINES)]
    for _ in range(10):
        subprocess.run(["true"], stdin=fds[0], close_fds=True, check=True)
    show("parent", [os.read(fd, 4) for fd in fds])


def case_subprocess_missing_program():
    fails("ENOENT", subprocess.run, [f"{T}/scripts/none"])
    fails("EACCES", subprocess.run, [f"{T}/scripts/not_executable.sh"])
    fails("EACCES", subprocess.run, [f"{T}/scripts"])
    fails("ENOENT", subprocess.run, [f"{T}/scripts/bad_interpreter"])
    fails("ENOEXEC", subprocess.run, [f"{T}/scripts/no_hashbang"])
    fails("ENOTDIR", subprocess.run, [f"{HELLO}/x"])


def case_subprocess_program_on_the_tree():
    done = subprocess.run([f"{T}/scripts/hello.sh", "given"], capture_output=True)
    show("script", done.stdout, done.returncode)
    done = subprocess.run(
        ["hello.sh"], capture_output=True, env={**os.environ, "PATH": f"{T}/scripts:/usr/bin:/bin"}
    )
    show("by PATH", done.stdout)
    show("binary", subprocess.run([f"{T}/scripts/echo", "binary"], capture_output=True).stdout)


def case_os_system_and_popen():
    show("system", os.system(f"cat {HELLO}"))
    show("popen", os.popen(f"cat {T}/text/x").read())


def case_posix_spawn():
    def spawned(actions, argv=("/bin/cat",)):
        reader, writer = os.pipe()
        actions = [*actions, (os.POSIX_SPAWN_DUP2, writer, 1)]
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
        os.close(writer)
        output = b"".join(iter(lambda: os.read(reader, 65536), b""))
        return output, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    show("open", spawned([(os.POSIX_SPAWN_OPEN, 0, HELLO, os.O_RDONLY, 0)]))
    fd = os.open(LINES, os.O_RDONLY)
    os.lseek(fd, -24, os.SEEK_END)
    show("dup2", spawned([(os.POSIX_SPAWN_DUP2, fd, 0)]))
    show(
        "open then close",
        spawned(
            [
                (os.POSIX_SPAWN_OPEN, 9, HELLO, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 9, 0),
                (os.POSIX_SPAWN_CLOSE, 9),
            ]
        ),
    )
    show("program", spawned([], (f"{T}/scripts/hello.sh", "spawned")))
    fails("ENOENT", os.posix_spawn, f"{T}/scripts/none", ["x"], {})
    fails(
        "ENOENT",
        os.posix_spawn,
        "/bin/cat",
        ["cat"],
        {},
        file_actions=[(os.POSIX_SPAWN_OPEN, 0, f"{T}/none", os.O_RDONLY, 0)],
    )


def case_execv_keeps_descriptors():
    fd = os.open(LINES, os.O_RDONLY)
    os.read(fd, 24)
    os.set_inheritable(fd, True)
    os.dup2(fd, 0)
    sys.stdout.flush()
    os.execv("/usr/bin/head", ["head", "-n", "2"])


def case_execve_in_the_tree():
    sys.stdout.flush()
    os.execve(f"{T}/scripts/hello.sh", ["ignored", "argument"], os.environ)


def case_fexecve():
    sys.stdout.flush()
    fd = os.open(f"{T}/scripts/echo", os.O_RDONLY)
    os.execve(fd, ["echo", "from a descriptor"], os.environ)


def case_execvp_failures():
    fails("ENOENT", os.execv, f"{T}/none", ["x"])
    fails("EACCES", os.execv, HELLO, ["x"])
    fails("EACCES", os.execv, T, ["x"])
    show("still here", open(HELLO).read())


def case_threads_read_different_files():
    with ThreadPoolExecutor(8) as threads:
        show("digests", list(threads.map(digest, pictures() * 5)))


def case_threads_share_one_descriptor():
    fd = os.open(BIG, os.O_RDONLY)
    size = os.fstat(fd).st_size
    counts = []

    def work():
        total = 0
        while part := os.read(fd, 1021):
            total += len(part)
        counts.append(total)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    same("each byte once", sum(counts) == size, True)


def case_threads_pread_one_descriptor():
    fd = os.open(f"{T}/bin/pattern.bin", os.O_RDONLY)

    def check(start):
        return all(
            int.from_bytes(os.pread(fd, 4, i * 4), "little") == i
            for i in range(start, 100_000, 997)
        )

    with ThreadPoolExecutor(8) as threads:
        same("right", all(threads.map(check, range(50))), True)


def case_threads_open_and_close():
    def work(seed):
        wrong = 0
        for i in range(seed, 1500, 7):
            with open(f"{T}/many/f{i:05d}.dat", "rb") as file:
                wrong += file.read() != b"%d\n" % i
        return wrong

    with ThreadPoolExecutor(7) as threads:
        same("wrong", sum(threads.map(work, range(7))), 0)


def case_threads_list_directories():
    with ThreadPoolExecutor(6) as threads:
        show("counts", sorted(set(threads.map(lambda _: len(os.listdir(f"{T}/many")), range(30)))))


def case_daemonised_double_fork():
    reader, writer = os.pipe()
    fd = os.open(HELLO, os.O_RDONLY)

    def child():
        os.setsid()
        if os.fork() == 0:
            os.write(writer, os.read(fd, 100))
            os._exit(0)

    show("exit", in_child(child))
    os.close(writer)
    show("grandchild", os.read(reader, 100))


def case_child_with_its_own_environment():
    fd = os.open(HELLO, os.O_RDONLY)
    done = subprocess.run(["/bin/cat"], stdin=fd, env={}, capture_output=True)
    show("stdin without the environment", done.stdout, done.returncode)
    done = subprocess.run(["/bin/cat", HELLO], env={"PATH": "/bin"}, capture_output=True)
    show("path without the environment", done.stdout, done.returncode)


def case_closing_stdin_reuses_zero():
    os.close(0)
    fd = os.open(HELLO, os.O_RDONLY)
    show("number", fd, os.read(0, 5))
    sys.stdout.flush()
    os.lseek(0, 0, os.SEEK_SET)
    os.set_inheritable(0, True)
    os.execv("/bin/cat", ["cat"])


def case_exit_in_a_thread_and_atexit():
    import atexit

    atexit.register(lambda: show("atexit", open(HELLO).read()))
    threading.Thread(target=lambda: show("thread", open(HELLO).read())).start()


def case_signal_during_reads():
    import signal

    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(open(HELLO).read()))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    digests = {digest(BIG) for _ in range(40)}
    signal.setitimer(signal.ITIMER_REAL, 0)
    same("read", len(digests), 1)
    same("in the handler", set(hits) <= {"hello world\n"}, True)


def case_ctypes_dlopen_from_the_tree():
    fails_to_load = "none"
    try:
        ctypes.CDLL(f"{T}/scripts/none.so")
    except OSError:
        fails_to_load = "refused"
    show("dlopen", fails_to_load)


if __name__ == "__main__":
    run(globals())
