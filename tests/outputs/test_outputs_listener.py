"""The socket at which programs ask, while the daemon has no descriptors to spare."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any

from fanstore.outputs.ranks.listener import Listener

CLIENTS = 40
LASTS_S = 0.5
TRIES_MOST = 200  # a hundred a second, and some more


class Short(socket.socket):
    """Lets in so many clients, then there are no descriptors."""

    room = tries = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.tries += 1
        if self.room == 0:
            raise OSError(errno.EMFILE, "none left")
        self.room -= 1
        return super().accept()


def test_who_ends_while_descriptors_are_short_adds_no_work(tmp_path: Path) -> None:
    async def whole(short: Short) -> None:
        short.bind(f"{tmp_path}/socket")
        short.listen()
        short.setblocking(False)
        listener = Listener(short, 1, _never, CLIENTS)
        for _ in range(CLIENTS):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(f"{tmp_path}/socket")
                short.room += 1
                while short.room:
                    await asyncio.sleep(0.001)
        with socket.socket(socket.AF_UNIX) as waiting:
            waiting.connect(f"{tmp_path}/socket")
            short.tries = 0
            await asyncio.sleep(LASTS_S)
            assert 0 < short.tries < TRIES_MOST
        listener.close()

    async def _never(_: Any) -> Any:
        raise AssertionError("nobody asks anything")

    with Short(socket.AF_UNIX) as short:
        asyncio.run(asyncio.wait_for(whole(short), 60))
