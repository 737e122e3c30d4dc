"""The log of changes is read as programs write it, contrasted with what cffi wrote."""

from fanstore._native import ffi
from fanstore.outputs.model.changes import ELSEWHERE, Change, parse
from fanstore.outputs.model.entries import Attr, Place

HEAD_BYTES = ffi.sizeof("struct fan_change")


def record(first, path, other=b"", elsewhere=0):
    """Returns a record, padded as the log has it, in which each field has a value of its own."""
    padded = [each + bytes(-len(each) % 8) for each in (path, other)]
    change = ffi.new("struct fan_change *")
    change.bytes = HEAD_BYTES + sum(map(len, padded))
    change.path_bytes, change.other_bytes = len(path), len(other)
    change.kind, change.mount, change.pid = first | elsewhere, first + 1, first + 2
    change.rank = first + 3
    change.object, change.gone, change.when_ns = 2**63 + first, 2**62 + first, -first
    attr = change.attr
    attr.ino = attr.object = 2**64 - 1
    attr.nlink = 2**32 - 1
    attr.mode, attr.uid, attr.gid = 2**31 + first, 2**31 + first + 1, 2**31 + first + 2
    attr.size, attr.blocks = 2**63 + first + 3, 2**63 + first + 4
    attr.atime_ns, attr.mtime_ns, attr.ctime_ns = -first - 5, -first - 6, -first - 7
    return bytes(ffi.buffer(change)) + b"".join(padded)


def expected(first, place, to, elsewhere=0):
    attr = Attr(
        2**31 + first, 2**31 + first + 1, 2**31 + first + 2,
        2**63 + first + 3, 2**63 + first + 4, -first - 5, -first - 6, -first - 7,
    )  # fmt: skip
    return Change(
        first, bool(elsewhere), first + 3, place, to, 2**63 + first, 2**62 + first, first + 2,
        -first, attr,
    )  # fmt: skip


def test_each_field_of_each_record_is_read():
    log = record(3, b"a/b/name") + record(40, b"x", b"d/longer-name", ELSEWHERE)
    log += record(7, b"d/7 bytes")
    one, three = Place(4, b"a/b", b"name"), Place(8, b"d", b"7 bytes")
    two, to = Place(41, b"", b"x"), Place(41, b"d", b"longer-name")
    assert list(parse(log)) == [
        expected(3, one, one), expected(40, two, to, ELSEWHERE), expected(7, three, three)
    ]  # fmt: skip


def test_an_empty_log_has_no_changes():
    assert list(parse(b"")) == []
