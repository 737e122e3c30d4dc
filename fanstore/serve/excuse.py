"""Of a rank that cannot begin: the others hear of it, instead of waiting for it in MPI_Init."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fanstore.errors import FanstoreError
from fanstore.launcher import Launcher
from fanstore.world import MpiWorld

_PATIENCE_S = 30.0


@contextlib.contextmanager
def excused(launcher: Launcher) -> Iterator[None]:
    """What is raised here before this rank has a node daemon ends the daemons of all others."""
    try:
        yield
    except FanstoreError as error:
        if launcher.world_size > 1:
            _tell(launcher, str(error))
        raise


def _tell(launcher: Launcher, message: str) -> None:
    """Joins the others for that alone. Without MPI they do not come together either."""
    with contextlib.suppress(FanstoreError):
        world = MpiWorld(launcher.world_size, _PATIENCE_S, lambda: None)
        world.fail(message)
        world.finish()
