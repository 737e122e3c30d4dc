"""The orders in which a job will read, as far as they are known, so that the node can prefetch."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore import in_job
from fanstore.foresight.announced import Announced
from fanstore.foresight.sink import NodeSink, Sink
from fanstore.job.plan import JobPlan
from fanstore.job.served import ServedDataset
from fanstore.messages.figures import BucketFigures, OrderFigures, TraceEnd
from fanstore.messages.message import encode, replace
from fanstore.node.job_directory import JobDirectory
from fanstore.node.server import NodeServer
from fanstore.node.visit import SharedCache
from fanstore.startup import World

if TYPE_CHECKING:
    from fanstore.foresight.kept import KeptOrders
    from fanstore.foresight.planned import Planned
    from fanstore.foresight.sample_files import Told
    from fanstore.rank_calls.peers import Peers

    Submit = Callable[[Coroutine[Any, Any, None]], Any]

_END_WAIT_S = 5.0  # not longer, because other ranks wait for this one


class JobOrders:
    """Runs a thread in which `source` tells its sink in which order files will be read."""

    def __init__(self, source: Announced | Planned, sink: Sink, directory: JobDirectory) -> None:
        self.source = source
        self._sink = sink
        self._directory = directory
        self._problem = ""
        self._stopping = False
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="fanstore-order", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Makes the source count the last opens and end, and waits for it for a limited time. Call
        it before the node is closed."""
        self._stopping = True
        os.eventfd_write(self._wakeup, 1)
        self._thread.join(_END_WAIT_S)
        if self.source.listener is not None:
            self.source.listener.close()
        self._sink.close()

    def figures(self) -> OrderFigures:
        """Returns how well reads were predicted, and why programs made no more announcements."""
        found = self.source.figures()
        refused = {**found.refused, self._problem: 1} if self._problem else found.refused
        return replace(found, refused=refused, notes=self._directory.order_notes())

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # the job goes on without predictions
            traceback.print_exception(error, file=sys.stderr)
            self._problem = f"{type(error).__name__}: {error}"
        self.source.end()

    def _follow(self) -> None:
        poll, listener, heard = select.poll(), self.source.listener, False
        poll.register(self._wakeup, select.POLLIN)
        if listener is not None:
            poll.register(listener, select.POLLIN)
        stopping = False
        while not stopping:
            pause_s = self.source.pause_s(heard)
            asked = poll.poll(None if pause_s is None else pause_s * 1000)
            stopping = self._stopping  # then this is the last look
            heard = bool(asked) and not stopping and self.source.hear()
            self.source.look()


def share_learnt(orders: JobOrders | None, peers: Peers, submit: Submit) -> None:
    """Shares the files of samples that are learnt with the other ranks. Call it before the peers
    start, on every rank: one that learns nothing must still take messages. submit: runs a coroutine
    in the event loop of the peers, from another thread."""
    source = None if orders is None else orders.source
    if not isinstance(source, Announced):
        peers.serve("orders.learnt", lambda *_: None)
        return
    peers.serve("orders.learnt", lambda _, told: source.hear_of(told))
    others = [rank for rank in range(peers.world_size) if rank != peers.rank]

    async def tell_all(told: Sequence[Told]) -> None:
        for rank in others:
            peers.tell(rank, "orders.learnt", told)

    def tell(told: Sequence[Told]) -> None:
        telling = tell_all(told)
        try:
            submit(telling)
        except RuntimeError:  # the loop has ended with the job
            telling.close()

    source.tell = tell


def foreseen(
    orders: JobOrders | None, server: NodeServer | None, buckets: BucketFigures | None
) -> TraceEnd:
    """Returns the figures for the end of the trace: how well reads were predicted, and the node's
    prefetching. buckets: taken over."""
    node = {} if server is None else encode(server.figures())
    return TraceEnd(
        order=None if orders is None else orders.figures(),
        node={name: node[name] for name in node if name.startswith("ahead")},
        buckets=buckets,
    )


def begin_orders(
    plan: JobPlan,
    directory: JobDirectory,
    served: Sequence[ServedDataset],
    cache: SharedCache | None,
    world: World,
    warn: Callable[[str], None],
) -> JobOrders | None:
    """Begins to learn what will be read, from the source that `--order` names. Returns None if that
    is off. cache: None if all data is on the local disk. warn: called, in any thread, with a line
    about kept orders. Raises UsageError for an order file with errors."""
    if "FANSTORE_ANALYZE" in os.environ:
        _link_peek(directory)  # `fanstore study analyze` looks at loaders even if orders are off
    if plan.settings.order == "off":
        return None
    # Without notes, the progress of a loader is unknown, and prefetched blocks would never be
    # freed.
    datasets = [item.dataset for item in served]
    is_followed = cache is not None and plan.settings.trace != "off"
    sink = NodeSink(cache, datasets) if cache is not None and is_followed else Sink()
    if not plan.order_file:
        mounts = [(item.dataset, item.prefix.spellings()) for item in served]
        keeps = partial(_kept_orders, served, world, warn) if plan.settings.keep_learnt else list
        announced = Announced(directory.path, mounts, sink, plan.settings.order == "torch", keeps)
        _link_peek(directory)
        return JobOrders(announced, sink, directory)
    from fanstore.foresight.order_file import read_order  # late, because it loads NumPy
    from fanstore.foresight.planned import Planned

    epochs = read_order(plan.order_file, [(item.prefix.path, item.dataset) for item in served])
    return JobOrders(Planned(directory.file("segment"), epochs, sink), sink, directory)


def _link_peek(directory: JobDirectory) -> None:
    """Links fanstore/in_job in the job directory, where the preload library looks for it."""
    with contextlib.suppress(FileExistsError):
        os.symlink(Path(in_job.__file__).parent, directory.file("in_job"))


def _kept_orders(
    served: Sequence[ServedDataset], world: World, warn: Callable[[str], None]
) -> list[KeptOrders]:
    """Returns, for each dataset, the object that reads and writes its kept orders."""
    from fanstore.foresight.kept import (
        KeptFiles,
        KeptOrders,  # late, because it loads NumPy
    )

    return [
        KeptOrders(
            KeptFiles(os.path.dirname(item.info.index_path), item.dataset.dataset_id, warn),
            item.dataset.header.record_count,
            world.rank,
            world.world_size,
        )
        for item in served
    ]
