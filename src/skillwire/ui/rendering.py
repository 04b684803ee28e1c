"""Templates: HTML in which every value is escaped, and nothing hidden is left in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from skillwire.text import safe_text

_FOLDER: Final = Path(__file__).parent / "templates"


class Templates:
    """The templates of the page."""

    def __init__(self, **shared: Any) -> None:
        self._shared = shared

    def render(self, name: str, /, **values: Any) -> str:
        return _environment().get_template(name).render({**self._shared, **values})


@cache
def _environment() -> Environment:
    """One for all pages of this process: each template is compiled once."""
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _clean(value: Any) -> Any:
    """Prepares each value for a template: hidden characters are removed (SEC-11), then it is escaped."""
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
