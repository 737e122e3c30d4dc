"""The report counts every byte that was given out, and every error, whatever the road."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage

# Each takes a file of its own, of as many bytes as the power of two that it has here.
ROADS = {
    "cat_to_a_file": 'cat "$f" > "$o"',
    "cat_to_a_pipe": 'cat "$f" | cat > "$o"',
    "cp": 'cp "$f" "$o"',
    "dd": 'dd if="$f" of="$o" bs=7 status=none',
    "stdio": 'sort "$f" > "$o"',
    "sendfile": 'python "$0" sendfile "$f" "$o"',
    "splice": 'python "$0" splice "$f" "$o"',
    "mmap": 'python "$0" mmap "$f" "$o"',
    "socket": 'python "$0" socket "$f" "$o"',
}

CLIENT = """
import mmap, os, socket, sys
how, path, out = sys.argv[1:]
fd, to = os.open(path, os.O_RDONLY), os.open(out, os.O_WRONLY | os.O_CREAT)
size = os.fstat(fd).st_size
if how == "sendfile":
    while os.sendfile(to, fd, None, 3): pass
elif how == "splice":
    source, sink = os.pipe()
    os.splice(fd, sink, size)
    os.write(to, os.read(source, size))
elif how == "mmap":
    os.write(to, mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:])
else:
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [fd])
    os.write(to, os.read(socket.recv_fds(right, 9, 1)[1][0], size))
"""

ERRORS = {
    "cat": 'cat "$f" > "$o"',
    "cp": 'cp "$f" "$o"',
    "python": 'python "$0" mmap "$f" "$o"',
    "stdin": 'cat < "$f"',
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def script_of(roads: dict[str, str], stage: Stage) -> list[str]:
    """A command that takes all roads, one after the other."""
    client = stage.path / "client.py"
    client.write_text(CLIENT)
    lines = [f'python() {{ "{sys.executable}" "$@"; }}']
    for name, command in roads.items():
        lines.append(f'f="{stage.mount}/{name}" o="{stage.path}/out-{name}"; {command}')
    return ["bash", "-c", "\n".join(lines), str(client)]


def counted(said: str, what: str) -> int:
    """How many the last line says."""
    found = re.search(rf"([\d,]+)(?: bytes)? {what}", said)
    return int(found.group(1).replace(",", "")) if found else 0


@pytest.mark.parametrize("options", [(), ("--in-place",)])
def test_bytes_are_counted_on_every_road(stage: Stage, options: tuple[str, ...]) -> None:
    files = {name: b"x" * (1 << n) for n, name in enumerate(ROADS)}
    dataset = stage.dataset(stage.source(files=files))
    done = stage.run(dataset, *script_of(ROADS, stage), options=options)
    for name, content in files.items():
        assert (stage.path / f"out-{name}").read_bytes().rstrip(b"\n") == content, name
    missed = counted(done.stderr, "read") ^ (1 << len(ROADS)) - 1
    assert [name for n, name in enumerate(ROADS) if missed >> n & 1] == []


def test_pages_of_packs_are_counted_as_mapped(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={"mmap": b"x" * (128 << 10)}))
    script = script_of({"mmap": ROADS["mmap"]}, stage)
    said = stage.run(dataset, *script).stderr
    assert "0 bytes read, 128.0 KiB mapped" in said


def test_errors_of_a_dataset_that_was_replaced_are_counted(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={name: b"x" * 1000 for name in ERRORS}))
    command = script_of(ERRORS, stage)
    command[2] = f'mv "{dataset}" "{dataset}.old"; mkdir "{dataset}"\n' + command[2] + "\nexit 0"
    done = stage.run(dataset, *command, options=("--in-place",))
    assert done.stderr.count("Input/output error") >= len(ERRORS)
    assert counted(done.stderr, "errors") == len(ERRORS)
