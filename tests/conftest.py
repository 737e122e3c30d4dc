"""How the tests are shared among processes, and which of them run only in `make soak`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# What takes longest is begun first: in the end no process is left alone with one of these.
BEGUN_FIRST = (
    "outputs of contrast", "contrast", "test_calls.py",
    "test_rank_faults.py", "test_ranks.py", "test_transport.py", "test_exchange.py",
    "test_launch.py", "test_outputs_rank_faults.py", "test_outputs_ranks.py", "test_run.py",
    "test_partial_packs.py",
)  # fmt: skip


_IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def group_of(path: Path) -> str:
    """What one process runs together: a file; of tests/contrast those that share their daemons and
    their compiled programs."""
    if path.parent.name != "contrast" or path.name == "test_calls.py":
        return path.name
    return "outputs of contrast" if path.name.startswith("test_outputs") else "contrast"


def pytest_configure() -> None:
    """Restores signals that the caller ignores (nohup, a shell's `&`, perf): all programs started
    here would ignore them, too."""
    for number in signal.valid_signals() - _IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            is_int = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_int else signal.SIG_DFL)


def is_soak(item: pytest.Item) -> bool:
    return item.get_closest_marker("soak") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what takes long and rarely finds anything, unless `--soak` asks for just that."""
    wanted = config.getoption("--soak")
    left_out = [item for item in items if is_soak(item) != wanted]
    items[:] = [item for item in items if is_soak(item) == wanted]
    config.hook.pytest_deselected(items=left_out)
    rank = {name: at for at, name in enumerate(BEGUN_FIRST)}
    items.sort(key=lambda item: rank.get(group_of(item.path), len(rank)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the tests marked `soak`, no others")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        """Gives each process a whole group at a time, in the order of collection."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(Path(nodeid.split("::", 1)[0]))

    config.option.loadscopereorder = False
    return ByGroup(config, log)


def _top_level(config: pytest.Config) -> set[str]:
    return {entry.name for entry in config.rootpath.iterdir() if not entry.name.startswith(".")}


_THERE = pytest.StashKey[set[str]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_THERE] = _top_level(session.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a test left something beside the product, such as the outputs of a job."""
    left = _top_level(session.config) - session.config.stash[_THERE] - {"build"}
    if left:
        print(f"\nthe tests left in {session.config.rootpath}: {', '.join(sorted(left))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
