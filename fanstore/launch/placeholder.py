"""Puts the mount prefix into a command, in place of {}."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PLACE = re.compile(r"([^\s=]*=)?\{\}(/.*)?", re.DOTALL)


def with_prefix(command: Sequence[str], prefix: str) -> list[str]:
    """Returns a command with `prefix` in place of each {} that is a whole word, or all of it after
    its first `=`; a path may follow in the word. Any other {} stays: it is text of the command's
    own, such as Python code."""
    return [_filled(word, prefix) for word in command]


def _filled(word: str, prefix: str) -> str:
    match = _PLACE.fullmatch(word)
    return word if match is None else f"{match[1] or ''}{prefix}{match[2] or ''}"
