"""Tells the tool about the epochs of a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def epoch_over() -> None:
    """Prints how many files were opened so far, and in how many cases the order was known; on the
    first rank."""
    if os.environ.get("RANK", "0") != "0":
        return
    time.sleep(0.2)  # the node daemon looks at opens twenty times a second
    command = [sys.executable, "-m", "fanstore", "status", "--json"]
    status = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print("epoch over:", status["counters"]["opens"], status["order"]["predicted"], flush=True)
