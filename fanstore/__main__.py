"""The entry point of the command `fanstore`, and of `python -m fanstore`."""

from __future__ import annotations

import signal  # imports nothing else: a Ctrl-C before main() would show a traceback


def main() -> None:
    """Runs the command line. A Ctrl-C during its import ends the process without a traceback."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fanstore.cli import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
