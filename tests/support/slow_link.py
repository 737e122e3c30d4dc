"""A network link with a delay, where the kernel has no netem: run by test_netns.py, as root.

    python slow_link.py NAMESPACE NAMESPACE DELAY_S

Makes an interface "eth0" in either network namespace and passes frames between the two, each
DELAY_S late. Says "ready", and ends with its stdin.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import os
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_CLONE_NEWNET = 0x40000000
_FRAME_MAX_BYTES = 65536


def interface(namespace: str) -> int:
    """A descriptor for the frames of a new interface in `namespace`."""
    fd = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", b"eth0", _IFF_TAP | _IFF_NO_PI))
    return tap


def relay(ends: tuple[int, int], delay_s: float) -> None:
    """Until stdin's end."""
    late: collections.deque[tuple[float, int, bytes]] = collections.deque()
    while True:
        wait_s = max(0.0, late[0][0] - time.monotonic()) if late else None
        ready, _, _ = select.select([0, *ends], [], [], wait_s)
        if 0 in ready:
            return
        for number, fd in enumerate(ends):
            if fd in ready:
                frame = os.read(fd, _FRAME_MAX_BYTES)
                late.append((time.monotonic() + delay_s, ends[1 - number], frame))
        while late and late[0][0] <= time.monotonic():
            _, to, frame = late.popleft()
            with contextlib.suppress(OSError):  # an interface that is down loses frames
                os.write(to, frame)


if __name__ == "__main__":
    taps = (interface(sys.argv[1]), interface(sys.argv[2]))
    print("ready", flush=True)
    relay(taps, float(sys.argv[3]))
