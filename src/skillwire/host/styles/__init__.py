"""The styles of a host, each in a file of its own that sets `STYLE`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from skillwire.errors import SourceError
from skillwire.host.styles.base import Style
from skillwire.text import shown

DEFAULT = "spec"


@cache
def all_styles() -> tuple[Style, ...]:
    """Every style, the default one first."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found = [style for module in modules if isinstance(style := getattr(module, "STYLE", None), Style)]
    return tuple(sorted(found, key=lambda style: (style.name != DEFAULT, style.name)))


def find_style(style: str | Style) -> Style:
    """The style of this name. A style of your own is taken as it is."""
    if isinstance(style, Style):
        return style
    for known in all_styles():
        if known.name == style:
            return known
    names = ", ".join(known.name for known in all_styles())
    raise SourceError(f"no style is called {shown(style)}: choose from {names}")
