"""Keeps what becomes of the objects of this rank: the names under which they are published, which
are in the output directory, and at the end which are not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from fanstore.errors import SHOWN_MAX
from fanstore.outputs.model.entries import Attr, Entry, Place, home_rank_of
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.stageout.journal import Identity, Journal, Lone
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.reconcile import Reconciler
from fanstore.outputs.stageout.supply import Supplier
from fanstore.outputs.stageout.unstaged import keep, left_of
from fanstore.peers.interface import Peers


class Accounts:
    """Writes the journal, from what this rank does and what others tell of its objects."""

    def __init__(
        self,
        peers: Peers,
        name_tables: NameTables,
        objects: ObjectStore,
        directory: OutputDirectory,
        journal: Journal,
        supplier: Supplier,
    ) -> None:
        self._peers = peers
        self._name_tables = name_tables
        self._objects = objects
        self._directory = directory
        self._journal = journal
        self._supplier = supplier
        self._seen: dict[int, Place] = {}  # what the rank before this one did not place yet
        self._published = 0
        peers.serve("placed", lambda _, copies: self._placed(copies))
        peers.serve("note", lambda _, place, moved: self._note(place, moved))
        peers.serve("note_below", lambda _, mount, path: self._note_below(mount, path))
        peers.serve("witness", lambda _, object_id, name: self._see(object_id, name))
        peers.serve("named", lambda _, *args: self._named(*args))

    def published(self, place: Place, entry: Entry) -> None:
        """Notes a published file of this rank. Where another rank has renamed it already, that was
        told before."""
        self._published += 1
        self._supplier.published(entry)
        if entry.object_id not in self._journal.named:
            self._journal.name(entry.object_id, place, entry.attr.size)
        self._tell_witness(entry.object_id)

    def changed(self, place: Place, moved: bool = False) -> None:
        """Has the home rank tell the owner what a name stands for now. moved: it is a directory
        that came with all that is in it, which has other names now."""
        home_rank = home_rank_of(place.mount, place.directory, self._peers.world_size)
        self._peers.tell(home_rank, "note", place, moved)

    def discarded(self, object_id: int) -> None:
        """Notes that an object of this rank is gone."""
        waited = object_id in self._journal.waiting
        self._journal.drop(object_id)
        if waited:
            self._tell_witness(object_id)
        self._supplier.discarded(object_id)

    def waiting(self) -> dict[Place, int]:
        """Returns the objects of this rank that are not placed yet, by where they are to be."""
        return {self._journal.named[each].name: each for each in self._journal.waiting}

    def figures(self, in_line: int) -> dict[str, Any]:
        """Returns counts for people; may be called from any thread. published: staged, waiting and
        gone together; gone: replaced or removed since. in_line: names that wait, at least."""
        ledger, supplier = self._journal, self._supplier
        return {
            "output_dir": os.fsdecode(self._directory.root),
            "published": self._published,
            "staged": len(ledger.named) - len(ledger.waiting),
            "staged_bytes": ledger.named_bytes - ledger.waiting_bytes,
            "gone": self._published - len(ledger.named),
            "waiting": max(in_line, len(ledger.waiting)),
            "waiting_bytes": max(0, ledger.waiting_bytes - supplier.current_bytes),
            "copied_bytes": supplier.copied_bytes,
        }

    def settle(
        self,
        reconciler: Reconciler,
        unstaged: str,
        reason: Callable[[Place], str],
        partials: Iterable[int],
    ) -> dict[str, Any]:
        """Ends the accounts: what is not in the output directory is moved to `unstaged` and named,
        and so are `partials`, wherever they are. The journal goes, unless something could not even
        be moved: that is left to a rescue."""
        lone = [
            (place, Lone.of(entry))
            for place, entry in self._name_tables.entries()
            if not entry.is_file and not reconciler.is_placed(place, entry)
        ]
        named, shown = self._journal.named, self._directory.shown
        left = left_of(self._journal, lone, self._size)
        reasons = [(each, reason(each.name)) for each in left]
        kept, kept_all = keep(reasons, unstaged, self._directory, self._objects.path)
        if kept_all:
            self._journal.discard()
        told = [(each.lone is not None, *what) for each, *what in kept if not each.partial]
        unplaced = [(path, why) for _, path, why in sorted(told)]
        unfinished = sorted(shown(named[n].name) for n in partials if n in named)
        lost = [shown(name) for name in self._lost()]
        backups = self._directory.backups
        return {
            "unplaced": unplaced[:SHOWN_MAX],
            "unplaced_count": len(unplaced),
            "kept": unstaged if left else "",
            "partials": unfinished[:SHOWN_MAX],
            "partial_count": len(unfinished),
            "lost": lost[:SHOWN_MAX],
            "lost_count": len(lost),
            "backups": backups[:SHOWN_MAX],
            "backup_count": len(backups),
        }

    def _named(self, object_id: int, name: Place, attr: Attr) -> None:
        """Notes the new name, or attributes, of an object of this rank, if it is still there."""
        self._supplier.changed(object_id, attr)
        known = self._journal.named.get(object_id)
        if known is not None and known.name != name:
            self._journal.name(object_id, name, attr.size)
            self._tell_witness(object_id)

    def _placed(self, copies: Iterable[tuple[int, Place, Identity]]) -> None:
        """Notes that copies of objects of this rank are in the output directory."""
        with self._journal.together():
            for object_id, name, identity in copies:
                self._journal.place(object_id, name, identity)
                self._tell_witness(object_id)

    def _note(self, place: Place, moved: bool) -> None:
        """Notes, on the home rank, what a name stands for; of a directory that came with all that
        is in it, or has left, also all below."""
        if self._note_one(place, moved):
            self._note_below(place.mount, place.path)

    def _note_one(self, place: Place, moved: bool) -> bool:
        """Tells the owner the name of its file, or writes down what has no owner. Returns whether
        what is below has other names now."""
        entry, before = self._name_tables.get(place), self._journal.lone_at(place)
        if entry is not None and entry.is_file:
            self._peers.tell(entry.owner, "named", entry.object_id, place, entry.attr)
            entry = None
        self._journal.set_lone(place, None if entry is None else Lone.of(entry))
        if entry is not None and entry.is_directory:
            return moved
        return before is not None and before.is_directory

    def _note_below(self, mount: int, path: bytes) -> None:
        """Has noted what is below a directory now, and that nothing else is."""
        paths = [path]
        while paths:
            path = paths.pop()
            home_rank = home_rank_of(mount, path, self._peers.world_size)
            if home_rank != self._peers.rank:
                self._peers.tell(home_rank, "note_below", mount, path)
                continue
            there = [name for name, _ in self._name_tables.list(mount, path)]
            for name in dict.fromkeys([*there, *self._journal.lone.get((mount, path), ())]):
                place = Place(mount, path, name)
                if self._note_one(place, True):
                    paths.append(place.path)

    def _size(self, object_id: int) -> int:
        """Returns the size of an object's file in bytes. Where it is gone, against all
        expectation, that is not passed over: keeping it fails."""
        with contextlib.suppress(OSError):
            return os.lstat(self._objects.path(object_id)).st_size
        return 0

    def _tell_witness(self, object_id: int) -> None:
        """Tells the next rank the name of an object of this rank that is nowhere else, so that it
        can be named if this rank is lost; None: it need not be remembered any more."""
        if self._peers.world_size > 1:
            waits = object_id in self._journal.waiting
            name = self._journal.named[object_id].name if waits else None
            witness = (self._peers.rank + 1) % self._peers.world_size
            self._peers.tell(witness, "witness", object_id, name)

    def _see(self, object_id: int, name: Place | None) -> None:
        if name is None:
            self._seen.pop(object_id, None)
        else:
            self._seen[object_id] = name

    def _lost(self) -> list[Place]:
        """Returns the outputs that were lost with the rank before this one."""
        before = (self._peers.rank - 1) % self._peers.world_size
        return sorted(set(self._seen.values())) if self._peers.is_lost(before) else []
