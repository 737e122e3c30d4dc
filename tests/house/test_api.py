"""Every public name is documented, and what it is given is named there."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = ["fanstore", "fanstore.coordinate", "fanstore.order", "fanstore.torch"]
# What they mean is said by Python itself, or by the torch class that is stood in for.
KNOWN = {"self", "args", "kwargs", "num_replicas", "shuffle", "drop_last", "collate_fn"}


def public(module: str) -> Iterator[tuple[str, Any]]:
    """Yields the public names of a module, and the methods and properties of its classes."""
    found = importlib.import_module(module)
    for name in found.__all__:
        thing = getattr(found, name)
        yield name, thing
        if inspect.isclass(thing):
            own = [each for each in thing.__mro__ if each.__module__.startswith("fanstore")]
            for part, value in inspect.getmembers(thing):
                is_ours = any(part in vars(each) for each in own)
                is_said = inspect.isfunction(value) or isinstance(value, property)
                if is_ours and is_said and not part.startswith("_"):
                    yield f"{name}.{part}", value


def unnamed(thing: Any, text: str) -> list[str]:
    """Returns the arguments that a documentation does not name."""
    if isinstance(thing, property) or (inspect.isclass(thing) and "__init__" not in vars(thing)):
        return []
    names = set(inspect.signature(thing).parameters) - KNOWN
    return [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize("module", MODULES)
def test_public_names_and_arguments_are_documented(module: str) -> None:
    if module == "fanstore.torch":
        pytest.importorskip("torch")
    said = {name: inspect.getdoc(thing) or "" for name, thing in public(module)}
    assert said and [name for name, text in said.items() if not text] == []
    missing = {name: unnamed(thing, said[name]) for name, thing in public(module)}
    assert {name: names for name, names in missing.items() if names} == {}
