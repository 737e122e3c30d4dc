"""The colours of a report. Okabe and Ito's (2008), which people with any colour vision tell apart;
a source has the same one everywhere."""

from __future__ import annotations

# name: (on light paper, on dark)
COLOURS = {
    "ink": ("#1a1a1a", "#e8e8e8"),
    "muted": ("#5c5c5c", "#a8a8a8"),
    "grid": ("#dddddd", "#3a3a3a"),
    "paper": ("#ffffff", "#16181c"),
    "accent": ("#0072b2", "#5ab4f0"),
    "quiet": ("#b4b4b4", "#6a6a6a"),
    "disk": ("#009e73", "#19b88b"),
    "cache": ("#56b4e9", "#56b4e9"),
    "rank": ("#e69f00", "#f0ad1f"),
    "shared": ("#d55e00", "#e8702a"),
    "output": ("#cc79a7", "#d98cb8"),
}
# What plots are drawn in, before each becomes the name of its colour in the page.
_DRAWN = {f"#01{number:02x}01": name for number, name in enumerate(COLOURS)}
DRAWN = {name: drawn for drawn, name in _DRAWN.items()}


def themed(svg: str) -> str:
    """Returns an SVG whose colours are the page's, by name."""
    for drawn, name in _DRAWN.items():
        svg = svg.replace(drawn, f"var(--{name})")
    return svg


def style_of(dark: bool) -> str:
    """Returns the CSS properties that give the names their colours."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLOURS.items())
