"""Loads templates of pages and of scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def template(
    package: str,
    name: str,
    autoescape: bool = True,
    filters: Mapping[str, Callable[..., str]] | None = None,
) -> jinja2.Template:
    """Returns a template from a package's folder `templates`. It is an error if a name in it gets
    no value. autoescape: escape values for HTML."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        undefined=jinja2.StrictUndefined,
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not autoescape,
    )
    environment.filters |= filters or {}
    return environment.get_template(name)
