"""The first line of a script, as execve(2) and env(1) read it."""

from __future__ import annotations

import os
import shlex

HEAD_BYTES = 256  # how much of the line the kernel looks at
SCRIPTS_MAX = 5  # interpreters in a row


def interpreter_of(head: bytes) -> tuple[str, str] | None:
    """(interpreter, its one argument or "") that the head of a script names; None: none."""
    line = head[2:HEAD_BYTES].partition(b"\n")[0].partition(b"\0")[0].strip(b" \t\r")
    if not line:
        return None
    name, _, argument = line.replace(b"\t", b" ").partition(b" ")
    return os.fsdecode(name), os.fsdecode(argument.strip(b" \t"))


def run_by_env(argument: str) -> str | None:
    """The program that `env ARGUMENT SCRIPT` starts; None where that cannot be told. The kernel
    gives env one argument, which only -S splits.
    """
    split = next((o for o in ("-S", "--split-string=", "-vS") if argument.startswith(o)), None)
    if split is None:
        return argument if argument and argument[0] != "-" and "=" not in argument else None
    try:
        words = shlex.split(argument[len(split) :])
    except ValueError:
        return None
    while words and (words[0].startswith("-") or "=" in words[0]):
        takes_value = words[0] in ("-u", "--unset", "-C", "--chdir")
        words = words[1 + takes_value :]
    return words[0] if words else None
