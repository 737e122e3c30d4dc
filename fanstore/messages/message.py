"""The base class of all messages, and their conversion to and from JSON.

To a type checker, a subclass of Message is a frozen dataclass: mypy reports a misspelt field. At
run time it is a plain class, because the code that `dataclasses` generates for twenty of them would
take a fifth of the time in which `fanstore run` starts. The annotations are read when a class is
first used, so a module of messages has no `from __future__ import annotations`.
"""

import json
from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin

from fanstore.errors import FanstoreError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """Replaces typing.dataclass_transform in Python before 3.11; only type checkers use it."""
        return lambda kind: kind


M = TypeVar("M", bound="Message")
T = TypeVar("T", bound="NamedMessage")

# The type of a decoded JSON object.
Plain = dict[str, Any]

_SHOWN_MAX = 60  # characters of a wrong value that an error message quotes


class MessageError(FanstoreError):
    """A peer sent something that is not a message of the expected kind: the peer is another version
    of FanStore, or another program."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Message:
    """The base of all messages. A field may be a number, a text, a truth value, a message, a
    Sequence, tuple or Mapping of these, or one of these or None.

    A field whose default is None is left out of the JSON while it is None. A field that may hold a
    message or None, and has no default, is written as {} when it is None.
    """

    def __init__(self, **values: Any) -> None:
        own, kind = self.__dict__, type(self)
        for name in fields_of(kind):
            own[name] = values.pop(name) if name in values else getattr(kind, name)
        if values:
            raise TypeError(f"{kind.__name__} has no field {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"


class NamedMessage(Message):
    """A message whose JSON names its kind: the value NAME under the key KEY."""

    KEY: ClassVar[str] = "type"
    NAME: ClassVar[str] = ""


def fields_of(kind: type[Message]) -> Mapping[str, Any]:
    """Returns the types of a message's fields, by name. Fields of base classes come first."""
    found: dict[str, object] | None = kind.__dict__.get("_fields")
    if found is None:
        found = {}
        for base in reversed(kind.__mro__):
            for name, of in getattr(base, "__annotations__", {}).items():
                if get_origin(of) is not ClassVar:
                    found[name] = of
        type.__setattr__(kind, "_fields", found)
    return found


def replace(message: M, /, **changes: Any) -> M:
    """Returns a copy of a message with new values in some fields."""
    return type(message)(**{**message.__dict__, **changes})


def values_of(message: Message) -> Plain:
    """Returns a message's fields and values, for building another message with the same fields."""
    return {name: getattr(message, name) for name in fields_of(type(message))}


def encode(message: Message) -> Plain:
    """Returns a message as a JSON object (a dict), with its fields in order."""
    kind = type(message)
    plain: Plain = {}
    if isinstance(message, NamedMessage):
        plain[message.KEY] = message.NAME
    for name, of in fields_of(kind).items():
        value = getattr(message, name)
        if value is not None:
            plain[name] = _plain(value)
        elif not hasattr(kind, name):
            plain[name] = {} if _message_in(of) else None
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return encode(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def to_json(message: Message) -> bytes:
    """Returns a message as one line of JSON without the newline."""
    return json.dumps(encode(message)).encode()


def to_line(message: Message) -> bytes:
    """Returns a message as one line of JSON with the newline."""
    return to_json(message) + b"\n"


def from_line(line: bytes) -> Plain:
    """Parses a line of JSON and returns the object. Raises MessageError."""
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message that is no JSON: {error}") from None
    if not isinstance(plain, dict):
        raise MessageError(f"a message that is not an object: {_shown(plain)}")
    return plain


def decode(kind: type[M], plain: object, at: str = "") -> M:
    """Returns the message of type `kind` that a JSON object holds. Ignores keys that are no fields
    of `kind`. at: the path of the object within a larger one, for error messages. Raises
    MessageError."""
    if not isinstance(plain, dict):
        raise _wrong(at or kind.__name__, plain, "an object")
    values = {}
    for name, of in fields_of(kind).items():
        if name in plain:
            values[name] = _value(of, plain[name], f"{at}.{name}" if at else name)
        elif not hasattr(kind, name):
            where = f" in {at}" if at else ""
            raise MessageError(
                f"a message without {name!r}{where}, which {kind.__name__} has: another version of "
                "FanStore sent it"
            )
    return kind(**values)


def decode_one_of(kinds: Iterable[type[T]], plain: Mapping[str, Any]) -> T | None:
    """Returns the message that a JSON object holds, if its kind is one of `kinds`, else None.
    Raises MessageError."""
    for kind in kinds:
        if plain.get(kind.KEY) == kind.NAME:
            return decode(kind, plain)
    return None


def _value(of: Any, value: Any, at: str) -> Any:
    origin = get_origin(of)
    if origin is not None:
        return _compound(origin, of, value, at)
    if issubclass(of, Message):
        return decode(of, value, at)
    if type(value) is of or (of is float and type(value) is int):
        return value
    raise _wrong(at, value, of.__name__)


def _compound(origin: Any, of: Any, value: Any, at: str) -> Any:
    arguments = get_args(of)
    if origin is UnionType:
        inner = _inner(of)
        nothing = value is None or (value == {} and _message_in(of))
        return None if nothing else _value(inner, value, at)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _wrong(at, value, "an object")
        return {key: _value(arguments[1], each, f"{at}.{key}") for key, each in value.items()}
    if not isinstance(value, list):
        raise _wrong(at, value, "a list")
    if origin is tuple:
        if len(value) != len(arguments):
            raise _wrong(at, value, f"a list of {len(arguments)}")
        return tuple(_value(each, v, at) for each, v in zip(arguments, value, strict=True))
    # in one go: there may be thousands
    if arguments[0] is int and all(type(each) is int for each in value):
        return value
    return [_value(arguments[0], each, f"{at}[{n}]") for n, each in enumerate(value)]


def _inner(of: Any) -> Any:
    """Returns T for the type `T | None`."""
    (inner,) = (each for each in get_args(of) if each is not NoneType)
    return inner


def _message_in(of: Any) -> bool:
    if get_origin(of) is not UnionType:
        return False
    inner = _inner(of)
    return isinstance(inner, type) and issubclass(inner, Message)


def _wrong(at: str, value: object, expected: str) -> MessageError:
    return MessageError(f"a message with {at} = {_shown(value)}; expected is {expected}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
