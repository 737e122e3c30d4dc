"""What the clients that make outputs share.

D is the case's own directory: in the kind "input" a directory of the dataset, in the kind "output"
one that was made under the mount. Both hold `given` and `sub/inner` at first. T is the mount, W a
directory outside of it. What `tell` and `show` print is compared between the two sides. The cases
`served_*` have no plain side: what they expect is written in them, by `expect`.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Callable

D = T = W = KIND = ""
ROOMY_S = 20  # for what takes milliseconds

wrong: list[str] = []


def enter(directory: str, kind: str) -> None:
    """This process runs one case in `directory`."""
    global D, T, W, KIND
    D, T, W, KIND = directory, os.environ["T"], os.environ["W"], kind


def p(*names: str) -> str:
    """The absolute path of a name in the case's directory."""
    return "/".join((D, *names))


def show(label: str, *values: object) -> None:
    print(label, *map(repr, values), flush=True)


def result(call: Callable, *args: object, **options: object) -> str:
    """What a call gives, or the name of its errno."""
    try:
        return repr(call(*args, **options))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))


def tell(label: str, call: Callable, *args: object, **options: object) -> None:
    """Shows what a call gives, or the name of its errno."""
    print(f"{label}:", result(call, *args, **options), flush=True)


def expect(value: object, label: str, call: Callable, *args: object, **options: object) -> None:
    """As `tell`, and remembers when it is not the errno of that name, or that value."""
    found = result(call, *args, **options)
    print(f"{label}:", found, flush=True)
    if found != (value if isinstance(value, str) and value.isupper() else repr(value)):
        wrong.append(f"{label}: expected {value}, got {found}")


def opened(path: object, flags: int = os.O_RDONLY, mode: int = 0o666, **options: object) -> str:
    """Opens and closes."""
    os.close(os.open(path, flags, mode, **options))  # type: ignore[arg-type]
    return "opened"


def put(path: object, content: bytes = b"content\n", flags: int = 0) -> str:
    """Writes a file; gives its path."""
    fd = os.open(path, flags or os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)  # type: ignore[arg-type]
    try:
        at = 0
        while at < len(content):
            at += os.write(fd, content[at:])
    finally:
        os.close(fd)
    return path  # type: ignore[return-value]


def get(path: object) -> bytes:
    """A file's content."""
    with open(path, "rb") as file:  # type: ignore[call-overload]
        return file.read()


def names(path: object = None) -> list[str]:
    """A directory's names, sorted."""
    return sorted(os.listdir(path or D))  # type: ignore[call-overload]


def facts(path: int | str, follow: bool = False) -> tuple[object, ...]:
    """Of stat, what does not differ between file systems and runs."""
    found = os.fstat(path) if isinstance(path, int) else os.stat(path, follow_symlinks=follow)
    folder = stat.S_ISDIR(found.st_mode)
    own = (-1, -1) if folder else (found.st_nlink, found.st_size)
    return (oct(found.st_mode), found.st_uid, found.st_gid, *own)


def lines_of(exception: BaseException) -> str:
    return "".join(traceback.format_exception(exception))


def forked(work: Callable[[], object]) -> int:
    """Runs `work` in a child; its exit status, or minus the signal."""
    return reaped(fork(work))


def fork(work: Callable[[], object]) -> int:
    """Begins `work` in a child that ends by _exit(0)."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            work()
            code = 0
        except BaseException as error:
            print(lines_of(error), flush=True)
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


def reaped(child: int) -> int:
    """The exit status of a child, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Other:
    """Another process, begun before the case opens anything: evaluates what it is told to.

    It shares no descriptor with this one, so it is no writer of what this one writes.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        ask, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._ask)
            os.close(self._answer)
            self._serve(ask, answer)
        os.close(ask)
        os.close(answer)

    @staticmethod
    def _serve(ask: int, answer: int) -> None:
        space: dict[str, object] = dict(globals())
        with os.fdopen(ask) as questions:
            for line in iter(questions.readline, "end\n"):
                try:
                    text = repr(eval(line, space))
                except OSError as error:
                    text = errno.errorcode.get(error.errno or 0, repr(error))
                except BaseException as error:
                    text = repr(error)
                os.write(answer, text.encode() + b"\n")
        os._exit(0)

    def ask(self, expression: str) -> str:
        """What `expression` gives there, or the name of its errno."""
        os.write(self._ask, expression.replace("\n", " ").encode() + b"\n")
        text = b""
        while not text.endswith(b"\n"):
            part = os.read(self._answer, 65536)
            if not part:
                return "gone"
            text += part
        return text.decode().strip()

    def tell(self, label: str, expression: str) -> None:
        """Shows it, to be compared."""
        print(f"{label}:", self.ask(expression), flush=True)

    def expect(self, value: object, label: str, expression: str) -> None:
        """Shows it, and remembers when it is not the errno of that name, or that value."""
        found = self.ask(expression)
        print(f"{label}:", found, flush=True)
        if found != (value if isinstance(value, str) and value.isupper() else repr(value)):
            wrong.append(f"{label}: expected {value}, got {found}")

    def kill(self) -> None:
        """Ends it as a node's out-of-memory killer would."""
        os.kill(self.pid, signal.SIGKILL)
        reaped(self.pid)

    def end(self) -> None:
        """Lets it end by itself."""
        os.write(self._ask, b"end\n")
        os.close(self._ask)
        os.close(self._answer)
        reaped(self.pid)


def appears(path: str) -> bool:
    """Waits for a name that a process is to publish after this one heard of its end."""
    end = time.monotonic() + ROOMY_S
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    return os.path.exists(path)


def python(code: str, *arguments: str, **options: object) -> int:
    """A new process with its output shown; gives its exit status."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options
    )
    show("it printed", done.stdout.decode())
    return done.returncode
