"""fanstore site-files: writes man pages, shell completion and a module file for a site."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from fanstore import __version__
from fanstore.cli.jobs.script import our_program
from fanstore.errors import FanstoreError, UsageError

_MODULE = """\
#%Module1.0
module-whatis {{FanStore {version}: datasets of many small files as ordinary files}}
proc ModulesHelp {{}} {{
    puts stderr {{FanStore {version}. `fanstore --help` and `man fanstore` say more.}}
}}
conflict fanstore
prepend-path PATH {{{root}/bin}}
# man finds its pages beside a directory of PATH, unless MANPATH says where to look.
if {{[info exists env(MANPATH)]}} {{
    prepend-path MANPATH {{{root}/share/man}}
}}
# bash and fish look for completion here. Without a value these two directories are meant.
if {{![info exists env(XDG_DATA_DIRS)]}} {{
    append-path XDG_DATA_DIRS /usr/local/share
    append-path XDG_DATA_DIRS /usr/share
}}
prepend-path XDG_DATA_DIRS {{{root}/share}}
"""

_COMPLETION = {
    "bash": "share/bash-completion/completions/fanstore",
    "zsh": "share/zsh/site-functions/_fanstore",
    "fish": "share/fish/vendor_completions.d/fanstore.fish",
}


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def command(directory: Path) -> None:
    """Write man pages, shell completion and a module file for this installation below DIR.

    DIR/bin/fanstore becomes a link to this installation's program, so that a PATH with DIR/bin
    brings `fanstore` and none of the other programs beside it. Files of an earlier call are
    replaced.

    \b
    Example:
      fanstore site-files /sw/fanstore
    """
    root = directory.absolute()
    if re.search(r"[:{}\\\s]", str(root)):
        raise UsageError(f"{root}: a module file takes no path with spaces, colons or braces")
    program = Path(our_program())
    if not program.is_absolute():
        raise FanstoreError("there is no program `fanstore` here: install FanStore with pip")
    files = {root / path: text for path, text in site_files(root).items()}
    _link(root / "bin" / "fanstore", program)
    for path, text in files.items():
        _write(path, text)
    click.echo(f"{root}: {len(files)} files; to use them:")
    click.echo(f"  module use {root}/modulefiles && module load fanstore/{__version__}")


def site_files(root: Path) -> dict[str, str]:
    """Returns the texts of all files, by their paths below `root`."""
    from fanstore.cli import cli, man
    from fanstore.cli.completion import script

    context = click.Context(cli, info_name="fanstore", **cli.context_settings)
    leaves = list(cli.leaves())
    pages = {"fanstore": man.main_page(context, {name: text for name, text, _ in leaves})}
    for name, summary, leaf in leaves:
        pages[man.title(name)] = man.page(context, name, leaf, summary)
    files = {
        f"share/man/man{man.SECTION}/{title}.{man.SECTION}": text for title, text in pages.items()
    }
    files |= {path: script(shell, cli) for shell, path in _COMPLETION.items()}
    module = _MODULE.format(version=__version__, root=root)
    return {**files, f"modulefiles/fanstore/{__version__}": module}


def _link(link: Path, program: Path) -> None:
    """Makes `link` a symbolic link to `program`. Raises FanstoreError if another file is there."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists() and link.samefile(program):
        return
    if link.exists() and not link.is_symlink():
        raise FanstoreError(f"{link}: is there, and is not replaced; give another directory")
    fresh = link.with_name(f".fanstore-{os.getpid()}")
    fresh.symlink_to(program)
    fresh.replace(link)


def _write(path: Path, text: str) -> None:
    """Writes a file that other programs see either as it was before, or whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
