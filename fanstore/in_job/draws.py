"""Reports the indices that a sampler of unknown code draws. If the sampler goes through a sequence
(row) that can be found, reports the rest of the row ahead of time; otherwise each batch after it is
drawn. See start.py."""

from __future__ import annotations

import array
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from fanstore.in_job.told import SamplerTold

    # A message: the sampler, with "place" (how the indices follow those sent before), and the
    # indices.
    Piece = tuple[SamplerTold, dict[str, bytes]]

_PAUSE_S = 0.01  # between two messages, in seconds
_SEARCHES = 2  # searches for a row; one that finds a long row does not count if all of it is drawn
_RECENT = 64
_PIECE_MAX = 1 << 20


class Draws:
    """The indices that one iterator of a sampler draws in one epoch.

    rows: the module rows.py; sampler: the name of the sampler's class; workers_ahead: the number of
    batches drawn before the loader waits for the first one; drops_last: all batches have one size.
    The methods return pieces, which the caller sends."""

    def __init__(self, rows: Any, sampler: str, workers_ahead: int, drops_last: bool) -> None:
        self._rows = rows
        self._sampler = sampler
        self._left = workers_ahead
        self._drops_last = drops_last
        self._next_s = 0.0 if workers_ahead == 0 else time.monotonic() + _PAUSE_S
        self._place = "first"
        self._held = array.array("q")  # drawn, but not sent yet
        self._recent = array.array("q")  # the last indices drawn
        self._last = array.array("q")  # the last batch
        self._row: array.array[int] | None = None  # indices that were sent; drawn up to _at
        self._at = 0
        self._searches = _SEARCHES
        self._batch = 1
        self._off = False

    def take(self, iterator: Any, drawn: Any) -> Piece | None:
        """Takes the indices that `iterator` of the sampler has just drawn."""
        batch = None if self._off else self._rows.indices_of(drawn)
        if batch is None:
            self._off = True
            return None
        self._batch = max(self._batch, len(batch))
        self._left -= 1
        before, self._last = self._last, batch
        batch = self._beyond_row(batch)
        if not batch:
            return None
        self._held += batch
        self._recent = batch if len(batch) > 1 else (self._recent + batch)[-_RECENT:]
        if self._searches > 0 and self._find_row(iterator, before):
            return self._piece("its indices")
        late = time.monotonic() >= self._next_s
        return self.rest() if late or self._left == 0 or len(self._held) > _PIECE_MAX else None

    def rest(self) -> Piece | None:
        """Returns the indices that were drawn and not sent yet."""
        return self._piece("as drawn") if self._held else None

    def dropped(self) -> None:
        """Tells that the last piece could not be sent. The next piece then replaces all before
        it."""
        self._place, self._row = "instead", None
        self._next_s += 10 * _PAUSE_S

    def _beyond_row(self, batch: array.array[int]) -> array.array[int]:
        """Returns the indices of a batch that lie beyond the row's end; all of them if the batch
        differs from the row."""
        row, at = self._row, self._at
        if row is None:
            return batch
        expected = row[at : at + len(batch)]
        if expected != batch[: len(expected)]:
            self._row = None
            self._place = "instead"
            return batch
        self._at += len(expected)
        if self._at == len(row):
            self._row = None
            self._searches += len(row) > _RECENT
        return batch[len(expected) :]

    def _find_row(self, iterator: Any, before: array.array[int]) -> bool:
        self._searches -= 1
        try:
            row = self._rows.rest_of(iterator, self._recent, before)
        except (
            ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError
        ):  # fmt: skip
            # An exception of the sampler's own code.
            row = None
        if row and self._drops_last:
            del row[len(row) // self._batch * self._batch :]
        if not row:
            return False
        self._held += row
        self._row, self._at = row, 0
        return True

    def _piece(self, how: str) -> Piece:
        sampler: SamplerTold = {
            "kind": "Listed", "name": f"{self._sampler}, {how}", "batch": self._batch,
            "drop_last": False, "place": self._place,
        }  # fmt: skip
        indices = self._held.tobytes()
        self._held = array.array("q")
        self._place = "more"
        self._next_s = time.monotonic() + _PAUSE_S
        return sampler, {"indices": indices}
