"""Keeps what becomes of the objects of this rank: the names under which they are published, which
are in the output directory, and at the end which are not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from fanstore.errors import SHOWN_MAX
from fanstore.outputs.model.entries import Attr, Entry, Place, home_rank_of, split
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.model.partial import partial_paths
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.stageout.journal import Identity, Journal, Lone, Name, name_of
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.reconcile import Reconciler
from fanstore.outputs.stageout.supply import Supplier
from fanstore.outputs.stageout.unstaged import keep_link, keep_object
from fanstore.outputs.stageout.witness import Witness
from fanstore.peers.interface import Peers

Unplaced = list[tuple[str, str]]  # path below the output directory, reason


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
        self._witness = Witness(peers)
        self._published = 0
        peers.serve("placed", lambda _, copies: self._placed(copies))
        peers.serve("note", lambda _, place, moved: self._note(place, moved))
        peers.serve("note_below", lambda _, mount, path: self._note_below(mount, path))
        peers.serve("named", lambda _, *args: self._named(*args))

    def published(self, place: Place, entry: Entry) -> None:
        """Notes a published file of this rank. Where another rank has renamed it already, that was
        told before."""
        self._published += 1
        self._supplier.published(entry)
        name = self._journal.ledger.named.get(entry.object_id, name_of(place))
        self._journal.name(entry.object_id, name, entry.attr.size)
        if entry.object_id in self._journal.ledger.waiting:
            self._witness.tell(entry.object_id, name)

    def changed(self, place: Place, moved: bool = False) -> None:
        """Has the home rank tell the owner what a name stands for now. moved: it is a directory
        that came with all that is in it, which has other names now."""
        home_rank = home_rank_of(place.mount, place.directory, self._peers.world_size)
        self._peers.tell(home_rank, "note", place, moved)

    def discarded(self, object_id: int) -> None:
        """Notes that an object of this rank is gone."""
        if object_id in self._journal.ledger.waiting:
            self._witness.tell(object_id, None)
        self._journal.drop(object_id)
        self._supplier.discarded(object_id)

    def waiting_at(self, name: Name) -> int | None:
        """Returns the object of this rank that is to be placed under a name and is not yet, or
        None."""
        ledger = self._journal.ledger
        found = [each for each in ledger.waiting if ledger.named[each] == name]
        return found[-1] if found else None

    def waiting(self) -> list[Place]:
        """Returns where objects of this rank are to be placed and are not yet."""
        ledger = self._journal.ledger
        return [split(*ledger.named[each]) for each in ledger.waiting]

    def figures(self) -> dict[str, Any]:
        """Returns counts for people; may be called from any thread. published: staged, waiting and
        gone together; gone: replaced or removed since."""
        ledger = self._journal.ledger
        return {
            "published": self._published,
            "staged": len(ledger.named) - len(ledger.waiting),
            "staged_bytes": ledger.named_bytes - ledger.waiting_bytes,
            "gone": self._published - len(ledger.named),
            "waiting": len(ledger.waiting),
            "waiting_bytes": ledger.waiting_bytes,
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
        unplaced, kept_all = self._keep_objects(unstaged, reason)
        drafts, kept_drafts = self._keep_drafts(unstaged)
        if kept_all and kept_drafts:
            self._journal.discard()
        unplaced += self._keep_others(reconciler, unstaged, reason)
        unfinished = self._shown(partials)
        lost = [self._directory.shown(name) for name in self._witness.lost()]
        backups = self._directory.backups
        return {
            "unplaced": unplaced[:SHOWN_MAX],
            "unplaced_count": len(unplaced),
            "kept": unstaged if unplaced or drafts else "",
            "partials": unfinished[:SHOWN_MAX],
            "partial_count": len(unfinished),
            "lost": lost[:SHOWN_MAX],
            "lost_count": len(lost),
            "backups": backups[:SHOWN_MAX],
            "backup_count": len(backups),
        }

    def _named(self, object_id: int, name: Name, attr: Attr) -> None:
        """Notes the new name, or attributes, of an object of this rank, if it is still there."""
        ledger = self._journal.ledger
        self._supplier.changed(object_id, attr)
        if object_id in ledger.named and ledger.named[object_id] != name:
            self._journal.name(object_id, name, attr.size)
            if object_id in ledger.waiting:
                self._witness.tell(object_id, name)

    def _placed(self, copies: Iterable[tuple[int, Name, Identity]]) -> None:
        """Notes that copies of objects of this rank are in the output directory."""
        with self._journal.together():
            for object_id, name, identity in copies:
                self._journal.place(object_id, name, identity)
                if object_id not in self._journal.ledger.waiting:
                    self._witness.tell(object_id, None)

    def _note(self, place: Place, moved: bool) -> None:
        """Tells, on the home rank, the owner the name of its file; writes down what has no
        owner."""
        entry = self._name_tables.get(place)
        if entry is not None and entry.is_file:
            self._peers.tell(entry.owner, "named", entry.object_id, name_of(place), entry.attr)
            entry = None
        lone = None
        if entry is not None:
            lone = Lone(entry.attr.mode, entry.target if entry.is_link else None)
        self._journal.set_lone(name_of(place), lone)
        if moved and entry is not None and entry.is_directory:
            home_rank = home_rank_of(place.mount, place.path, self._peers.world_size)
            self._peers.tell(home_rank, "note_below", place.mount, place.path)

    def _note_below(self, mount: int, path: bytes) -> None:
        for name, _ in self._name_tables.list(mount, path):
            self._note(Place(mount, path, name), True)

    def _keep_objects(self, unstaged: str, reason: Callable[[Place], str]) -> tuple[Unplaced, bool]:
        """Moves the objects that are not placed; returns them with the reasons, and whether all are
        kept."""
        kept, kept_all = [], True
        ledger = self._journal.ledger
        for object_id in list(ledger.waiting):
            name = ledger.named[object_id]
            shown, why = self._directory.shown(name), reason(split(*name))
            try:
                keep_object(self._objects.path(object_id), unstaged, shown)
            except OSError as error:
                why += f"; and not kept: {error.strerror}"
                kept_all = False
            kept.append((shown, why))
        return sorted(kept), kept_all

    def _keep_drafts(self, unstaged: str) -> tuple[int, bool]:
        """Moves what somebody is still writing; returns how many there are, and whether all are
        kept."""
        count, kept_all = 0, True
        for object_id, name in self._journal.ledger.drafts.items():
            source = self._objects.path(object_id)
            try:
                if os.lstat(source).st_size > 0:
                    shown = self._directory.shown(name)
                    keep_object(source, unstaged, next(partial_paths(shown)))
                    count += 1
            except FileNotFoundError:
                continue
            except OSError:
                kept_all = False
        return count, kept_all

    def _shown(self, objects: Iterable[int]) -> list[str]:
        """Returns the names, for people, of those of these objects that have one."""
        named = self._journal.ledger.named
        return sorted(self._directory.shown(named[each]) for each in objects if each in named)

    def _keep_others(
        self, reconciler: Reconciler, unstaged: str, reason: Callable[[Place], str]
    ) -> Unplaced:
        """Keeps links and directories of this rank's tables that were not placed; returns them with
        the reasons."""
        kept = []
        for place, entry in self._name_tables.entries():
            if entry.is_file or reconciler.is_placed(place, entry):
                continue
            shown = self._directory.shown(name_of(place))
            if entry.is_link:
                with contextlib.suppress(OSError):
                    keep_link(entry.target, unstaged, shown)
            kept.append((shown, reason(place)))
        return sorted(kept)
