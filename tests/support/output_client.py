"""Asking a node daemon about outputs as the shim does, without the shim; and processes that do."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import pickle
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.model.wire import Op, Where
from fanstore.outputs.stageout.rescue import object_file

ANSWER_BYTES = ffi.sizeof("struct fan_output_answer")
CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_PR_SET_PDEATHSIG = 1
_LENGTH = struct.Struct("I")


@dataclass(frozen=True)
class Told:
    """An answer: attr by field."""

    where: Where
    attr: dict[str, int]
    text: bytes


def request(
    op: int, path: bytes = b"", other: bytes = b"", objects: Sequence[int] = (), **fields: int
) -> bytes:
    """The bytes of a request."""
    given = {"magic": lib.FAN_OUTPUT_MAGIC, "op": op, "path_bytes": len(path)}
    given |= {"other_bytes": len(other), "object_count": len(objects), **fields}
    head = bytes(ffi.buffer(ffi.new("struct fan_output_request *", given)))
    return head + path + other + b"".join(struct.pack("Q", number) for number in objects)


def send(directory: str, data: bytes, hang_up: bool = False) -> bytes:
    """What the daemon says to these bytes. hang_up: after which nothing more comes."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(30.0)
        fd = os.open(directory, os.O_PATH)
        try:
            stream.connect(f"/proc/self/fd/{fd}/outputs")
        finally:
            os.close(fd)
        with contextlib.suppress(BrokenPipeError):  # it has answered before it was asked
            stream.sendall(data)
            if hang_up:
                stream.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # it has not read all before its answer
            while chunk := stream.recv(1 << 16):
                answer += chunk
        return answer


def understood(data: bytes) -> Told:
    """An answer; raises the OSError that it is."""
    answer = ffi.from_buffer("struct fan_output_answer *", data)
    assert answer.magic == lib.FAN_OUTPUT_MAGIC
    assert len(data) == ANSWER_BYTES + answer.text_bytes
    if answer.error:
        raise OSError(answer.error, os.strerror(answer.error))
    names = [name for name, _ in ffi.typeof("struct fan_output_attr").fields]
    attr = {name: int(getattr(answer.attr, name)) for name in names}
    return Told(Where(answer.where), attr, data[ANSWER_BYTES:])


def open_told(told: Told, flags: int) -> int:
    """open(2) of the real file, as the daemon said."""
    flags &= ~(os.O_TRUNC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
    if told.where is Where.CREATE:
        flags |= os.O_CREAT | os.O_EXCL
        os.makedirs(os.path.dirname(told.text), 0o700, exist_ok=True)
    elif told.where is Where.CUT:
        flags |= os.O_TRUNC
    return os.open(told.text, flags, told.attr["mode"] & 0o7777)


class Client:
    """One process, as the shim has it answer."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.objects: dict[int, int] = {}
        self.mappings: list[mmap.mmap] = []

    def ask(
        self, op: int, path: bytes = b"", other: bytes = b"", objects: Sequence[int] = (), **kw: int
    ) -> Told:
        """One question."""
        return understood(send(self.directory, request(op, path, other, objects, **kw)))

    def open(self, path: bytes, flags: int = CREATE, mode: int = 0o644) -> int:
        """open(2): a descriptor."""
        for _ in range(100):
            told = self.ask(Op.OPEN, path, flags=flags, mode=mode)
            with contextlib.suppress(FileNotFoundError):
                return self._open_noted(told, flags)
        raise AssertionError("never there")

    def _open_noted(self, told: Told, flags: int) -> int:
        fd = open_told(told, flags)
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self.objects[fd] = told.attr["object"]
        return fd

    def write(self, fd: int, data: bytes) -> int:
        """write(2)."""
        return os.write(fd, data)

    def close(self, fd: int) -> str:
        """close(2), and what the daemon says of it."""
        number = self.objects.pop(fd)
        os.close(fd)
        return self.ask(Op.SETTLE, objects=[number]).where.name

    def close_unsaid(self, fd: int) -> None:
        """close(2) by a program that the shim is not in."""
        os.close(fd)

    def map(self, fd: int, size: int) -> None:
        """A shared, writable mapping."""
        os.ftruncate(fd, size)
        self.mappings.append(mmap.mmap(fd, size))

    def write_mapped(self, data: bytes) -> None:
        """Into the last mapping."""
        self.mappings[-1][: len(data)] = data

    def unmap(self) -> None:
        """The last mapping."""
        self.mappings.pop().close()

    def open_object(self, number: int) -> int:
        """A descriptor that the daemon did not allow: as a child is born with it."""
        fd = os.open(object_file(self.directory, number), os.O_WRONLY)
        self.objects[fd] = number
        return fd

    def say(self, op: int, objects: Sequence[int] | None = None) -> str:
        """HOLD, LEAVE and so on, of all that it has by default."""
        given = list(self.objects.values()) if objects is None else objects
        return self.ask(op, objects=given).where.name

    def write_file(self, path: bytes, data: bytes) -> str:
        """Makes a file."""
        fd = self.open(path)
        os.write(fd, data)
        return self.close(fd)

    def read_file(self, path: bytes) -> bytes:
        """What is published there."""
        fd = self.open(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as stream:
            return stream.read()

    def lookup(self, path: bytes) -> dict[str, int]:
        """lstat(2)."""
        told = self.ask(Op.LOOKUP, path, how=int(lib.FAN_OUTPUT_NOFOLLOW))
        assert told.where is Where.HERE
        return told.attr


class Program:
    """A process with a Client, which does as it is told."""

    def __init__(self, directory: str, client: Client | None = None) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            self._ours.close()
            if client is None:  # the daemon's socket among them, where a test has it in its process
                os.closerange(3, theirs.fileno())
                os.closerange(theirs.fileno() + 1, 1 << 16)
            _obey(theirs, Client(directory) if client is None else client)
        theirs.close()

    def call(self, name: str, *args: Any, **kw: Any) -> Any:
        """Has a method of its Client called; raises what that raises."""
        self.start(name, *args, **kw)
        good, result = _get(self._ours)
        if not good:
            raise result
        return result

    def start(self, name: str, *args: Any, **kw: Any) -> None:
        """The same, without waiting for what comes of it."""
        _put(self._ours, (name, args, kw))

    def fork(self) -> Forked:
        """Has it fork; the child says that it holds what it has."""
        return Forked(self, self.call("@fork"))

    def kill(self) -> None:
        """SIGKILL, and its end."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def exit(self, leave: bool = True) -> None:
        """An end in order: with what the shim says then, or without."""
        if leave:
            self.call("say", Op.LEAVE, [])
        _put(self._ours, ("@exit", (), {}))
        self.wait()

    def wait(self) -> None:
        """Until it is gone."""
        os.waitpid(self.pid, 0)
        self.pid = 0
        self._ours.close()

    def close(self) -> None:
        """Ends it if it still runs."""
        if self.pid:
            self.kill()


class Forked:
    """A child of a Program, told things through its parent."""

    def __init__(self, parent: Program, pid: int) -> None:
        self._parent = parent
        self.pid = pid

    def call(self, name: str, *args: Any, **kw: Any) -> Any:
        """As of a Program."""
        return self._parent.call("@child", name, args, kw)

    def kill(self) -> None:
        """SIGKILL, and its end."""
        self._parent.call("@kill")


@contextlib.contextmanager
def programs(directory: str, count: int) -> Iterator[list[Program]]:
    """Some, ended at the end."""
    made = [Program(directory) for _ in range(count)]
    try:
        yield made
    finally:
        for program in made:
            program.close()


def _put(stream: socket.socket, value: object) -> None:
    data = pickle.dumps(value)
    stream.sendall(_LENGTH.pack(len(data)) + data)


def _get(stream: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = stream.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def _obey(stream: socket.socket, client: Client) -> None:
    """The life of a Program's process."""
    children: list[Program] = []
    try:
        while True:
            name, args, kw = _get(stream)
            if name == "@exit":
                os._exit(0)
            try:
                result: tuple[bool, Any] = (True, _do(client, children, name, args, kw))
            except OSError as error:
                result = (False, error)
            _put(stream, result)
    except BaseException:
        os._exit(1)


def _do(client: Client, children: list[Program], name: str, args: Any, kw: Any) -> Any:
    if name == "@fork":
        children.append(Program(client.directory, client))
        children[-1].call("say", Op.HOLD)
        return children[-1].pid
    if name == "@child":
        return children[-1].call(args[0], *args[1], **args[2])
    if name == "@kill":
        return children[-1].kill()
    return getattr(client, name)(*args, **kw)
