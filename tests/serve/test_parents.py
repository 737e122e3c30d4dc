"""Whose child a program is, asked while programs end."""

from __future__ import annotations

import os
import threading
import time

from fanstore.node.opens import with_parents

LASTS_S = 3.0


def test_a_program_that_ends_has_its_parents_or_is_gone() -> None:
    until_s = time.monotonic() + LASTS_S
    latest = [os.getpid()]
    strangers = []

    def ask() -> None:
        while time.monotonic() < until_s:
            family, _ = with_parents(latest[0])
            if family and os.getpid() not in family:
                strangers.append(family)

    asking = threading.Thread(target=ask)
    asking.start()
    while time.monotonic() < until_s:
        child = os.posix_spawn("/bin/true", ["true"], {})
        latest[0] = child
        os.waitpid(child, 0)
    asking.join()
    assert strangers == []
