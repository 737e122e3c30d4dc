"""Sparse files in tar archives: the positions of the stored bytes, and the holes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

_ENTRY_BYTES = 24
_HEADER_MAP, _HEADER_ENTRIES, _HEADER_MORE = 386, 4, 482
_BLOCK_ENTRIES, _BLOCK_MORE = 21, 504

Places = Sequence[tuple[int, int]]
Number = Callable[[bytes], int | None]


@dataclass
class Segments:
    """The stored runs of a sparse file, as (offset, bytes) in order, and the file's size. Reads the
    file from front to back."""

    places: Places
    size: int
    _at: int = 0
    _next: int = 0

    @classmethod
    def checked(cls, places: Places, size: int, stored: int) -> Segments:
        """Returns the segments of a file of `size` bytes, `stored` of which are in the archive.
        Raises ValueError if the runs `places` contradict these numbers."""
        end = total = 0
        for offset, count in places:
            if offset < end or count < 0:
                raise ValueError("runs overlap")
            end = offset + count
            total += count
        if end > size or total != stored:
            raise ValueError("runs and sizes do not fit")
        return cls(places, size)

    def read_into(self, buffer: memoryview, read: Callable[[int], bytes]) -> int:
        """Reads the next bytes of the file into a buffer, holes as zeros. Returns how many were
        read. read(n): returns up to n of the stored bytes that follow."""
        done = 0
        while done < len(buffer) and self._at < self.size:
            start, end = self._run()
            room = len(buffer) - done
            if self._at < start:
                count = min(start - self._at, room)
                buffer[done : done + count] = bytes(count)
            else:
                data = read(min(end - self._at, room))
                count = len(data)
                if not count:
                    break
                buffer[done : done + count] = data
            done += count
            self._at += count
        return done

    def _run(self) -> tuple[int, int]:
        """Returns (start, end) of the run that holds the next byte, or else of the next run; the
        file's end twice if there is none."""
        while self._next < len(self.places):
            offset, count = self.places[self._next]
            if self._at < offset + count:
                return offset, offset + count
            self._next += 1
        return self.size, self.size


def _entries(data: bytes, number: Number) -> Iterator[tuple[int, int]]:
    for at in range(0, len(data), _ENTRY_BYTES):
        entry = data[at : at + _ENTRY_BYTES]
        if not entry[12]:
            return
        offset, count = number(entry[:12]), number(entry[12:])
        if offset is None or count is None:
            raise ValueError("no number")
        yield offset, count


def map_of_old_gnu(header: bytes, more: Callable[[], bytes], number: Number) -> tuple[Places, int]:
    """Returns the runs and the file's size from an old GNU header, and from the blocks behind it,
    which `more` reads."""
    end = _HEADER_MAP + _HEADER_ENTRIES * _ENTRY_BYTES
    places = list(_entries(header[_HEADER_MAP:end], number))
    size = number(header[_HEADER_MORE + 1 : _HEADER_MORE + 13])
    goes_on = header[_HEADER_MORE]
    while goes_on:
        block = more()
        if len(block) <= _BLOCK_MORE:
            raise ValueError("cut off")
        places += _entries(block[: _BLOCK_ENTRIES * _ENTRY_BYTES], number)
        goes_on = block[_BLOCK_MORE]
    if size is None:
        raise ValueError("no number")
    return places, size


def _pairs(numbers: Iterable[int]) -> Places:
    values = list(numbers)
    if len(values) % 2:
        raise ValueError("half a run")
    return list(zip(values[::2], values[1::2], strict=True))


def map_of_pax(records: Iterable[tuple[bytes, bytes]]) -> Places:
    """Returns the runs from the pax records of a sparse file: format 0.0 has a record for each
    number, format 0.1 a single one."""
    numbers: list[int] = []
    for key, value in records:
        if key == b"GNU.sparse.map":
            return _pairs(int(part) for part in value.split(b",")) if value else []
        if key in (b"GNU.sparse.offset", b"GNU.sparse.numbytes"):
            numbers.append(int(value))
    return _pairs(numbers)


def read_map(block: Callable[[], bytes]) -> Places:
    """Returns the runs of a sparse file in pax format 1.0: decimal numbers, one on a line, in
    blocks before the data, which `block` reads."""
    text = b""

    def line() -> int:
        nonlocal text
        while b"\n" not in text:
            if len(text) > 30:
                raise ValueError("no number")
            text += block()
        head, _, text = text.partition(b"\n")
        return int(head)

    return _pairs([line() for _ in range(2 * line())])
