"""Starts to watch a loader. csrc/preload/loading/python_hook.c runs this file in a job's Python as
soon as the loader's module is loaded, in a namespace that belongs to no module; `asked` there names
the file with the function `watch`.

The job must not be affected: this code advances no generator, calls no code of the job more often
than the job does, and keeps nothing alive or open. It reports a failure once, to the daemon and not
to the job."""

from __future__ import annotations

import os
from typing import Any

# Functions of python_hook.c, and the name.
load_part: Any = globals()["load_part"]
send, seal, asked = (globals()[name] for name in ("send", "seal", "asked"))

job = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
teller = load_part("teller.py").Teller(job, (send, seal))
begun = True  # tells python_hook.c that later exceptions are the job's own
try:
    load_part(asked).watch(teller)
    teller.began()
except Exception as error:
    teller.failed(error)
