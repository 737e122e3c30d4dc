"""Runs many cases one after the other and records what each shows and leaves: RESULT SPEC.
With `--trees` instead: lists directories.

Each case has a process and a session of its own, and a limit of time; what lies in its directory
afterwards is listed by yet another process.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable

import out_client
import read_tree

LIMIT_S = 30


def contained(work: Callable[[], int]) -> tuple[int, str]:
    """The exit status of `work` in a child (minus the signal), and what it printed."""
    with tempfile.TemporaryFile(dir=os.environ["W"]) as printed:
        child = os.fork()
        if child == 0:
            in_child(work, printed.fileno())
        watch = os.pidfd_open(child)
        ended, _, _ = select.select([watch], [], [], LIMIT_S)
        os.close(watch)
        if not ended:
            os.killpg(child, signal.SIGKILL)
        status = out_client.reaped(child)
        printed.seek(0)
        text = printed.read().decode("utf-8", "backslashreplace")
    return status, text if ended else text + f"[killed after {LIMIT_S} s]"


def in_child(work: Callable[[], int], printed: int) -> None:
    os.setsid()
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    code = 70
    try:
        code = work()
    except BaseException as error:
        print(out_client.lines_of(error), flush=True)
    finally:
        sys.stdout.flush()
        os._exit(code)


def spawned(spec: dict) -> tuple[int, str]:
    """As `contained`, of a program that is started as such."""
    directory, made = spec["directory"], spec["kind"] == "output"
    if made:
        furnish(directory)
    read = os.environ["MADE"] if made else os.path.join(os.environ["T"], "read")
    scratch = os.path.join(os.environ["W"], f"{spec['name']}-{spec['kind']}")
    os.mkdir(scratch)
    env = {**os.environ, "D": directory, "R": read, "W": scratch, "KIND": spec["kind"]}
    with tempfile.TemporaryFile(dir=os.environ["W"]) as printed:
        child = subprocess.Popen(
            spec["argv"], cwd=scratch, env=env, stdin=subprocess.DEVNULL,
            stdout=printed, stderr=printed, start_new_session=True,
        )  # fmt: skip
        late = ""
        try:
            child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            late = f"[killed after {LIMIT_S} s]"
        printed.seek(0)
        return child.returncode, printed.read().decode("utf-8", "backslashreplace") + late


def row_of(spec: dict, codes: dict) -> dict:
    """What is recorded of one case."""
    if spec.get("quick"):
        status, text = spawned(spec)
        listed: object = tree(spec["directory"])
    else:
        code = codes.get(spec.get("source"))
        status, text = contained(lambda: begin(spec, code))
        listed = tree_of(spec["directory"])
    return {
        "name": spec["name"], "kind": spec["kind"], "status": status, "text": text, "tree": listed,
    }  # fmt: skip


def python_case(code: object, case: str) -> int:
    names = {"__name__": "client"}
    exec(code, names)  # type: ignore[arg-type]
    names[case]()  # type: ignore[operator]
    for line in out_client.wrong:
        print("WRONG", line)
    return 1 if out_client.wrong else 0


def begin(spec: dict, code: object) -> int:
    directory = spec["directory"]
    os.chdir(os.environ["W"])
    os.environ["D"] = directory
    if spec["kind"] == "output":
        furnish(directory)
    out_client.enter(directory, spec["kind"])
    if code is not None:
        return python_case(code, spec["case"])
    sys.stdout.flush()
    os.execvp(spec["argv"][0], spec["argv"])


def furnish(directory: str) -> None:
    """What a directory of the dataset has from the start."""
    os.makedirs(f"{directory}/sub")
    for name in ("given", "sub/inner"):
        with open(f"{directory}/{name}", "w") as file:
            file.write(f"{name}\n")


def tree(directory: str) -> dict[str, list]:
    """What lies there, without following links."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(directory)):
        for name in folders + files:
            path = os.path.join(folder, name)
            label = os.fsencode(os.path.relpath(path, os.fsencode(directory)))
            try:
                found[label.decode("utf-8", "backslashreplace")] = describe(path)
            except OSError as error:
                found[label.decode("utf-8", "backslashreplace")] = [str(error)]
    return found


def describe(path: bytes) -> list:
    status = os.lstat(path)
    mode = oct(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return [mode, os.readlink(path).decode("utf-8", "backslashreplace")]
    if not stat.S_ISREG(status.st_mode):
        return [mode]
    try:
        with open(path, "rb") as file:
            content = file.read()
    except PermissionError:
        return [mode, status.st_nlink, status.st_size, "unreadable"]
    return [mode, status.st_nlink, len(content), hashlib.sha256(content).hexdigest()[:16]]


def tree_of(directory: str) -> object:
    """As seen by a process that had no part in it."""

    def work() -> int:
        print(json.dumps(tree(directory)))
        return 0

    status, text = contained(work)
    try:
        return json.loads(text)
    except ValueError:
        return f"no listing: {status}: {text}"


def list_trees(directories: list[str]) -> None:
    """Prints what lies in each of them, by its path."""
    print(json.dumps({directory: tree(directory) for directory in directories}))


def main() -> None:
    with open(sys.argv[2]) as file:
        specs = json.load(file)
    codes = {}
    for source in {spec["source"] for spec in specs if "source" in spec}:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), source)
        with open(path) as file:
            codes[source] = compile(file.read(), path, "exec")
    if os.environ["MADE"]:
        read_tree.build(os.environ["MADE"])
    with open(sys.argv[1], "w") as record:
        for spec in specs:
            record.write(json.dumps(row_of(spec, codes)) + "\n")
            record.flush()


if __name__ == "__main__":
    if sys.argv[1] == "--trees":
        list_trees(sys.argv[2:])
    else:
        main()
