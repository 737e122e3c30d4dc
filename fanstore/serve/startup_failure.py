"""A rank that cannot start tells the others, which would wait for it in MPI_Init."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fanstore.errors import FanstoreError
from fanstore.launcher import Launcher
from fanstore.world import MpiWorld

_PATIENCE_S = 30.0


@contextlib.contextmanager
def failure_told_to_others(launcher: Launcher) -> Iterator[None]:
    """Around what a rank does before it has a node daemon: a FanstoreError raised there ends the
    daemons of all other ranks with the same message, and is raised on."""
    try:
        yield
    except FanstoreError as error:
        if launcher.world_size > 1:
            _tell(launcher, str(error))
        raise


def _tell(launcher: Launcher, message: str) -> None:
    """Joins the other ranks only to say so. Where MPI is missing they have not come together and
    nobody waits."""
    with contextlib.suppress(FanstoreError):
        world = MpiWorld(launcher.world_size, _PATIENCE_S, lambda: None)
        world.fail(message)
        world.finish()
