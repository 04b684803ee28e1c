"""Rendering: HTML in which every value is escaped and nothing hidden is left, and the frame of every page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from skillwire.text import safe_text
from skillwire.version import VERSION

if TYPE_CHECKING:
    from skillwire.ui.live import Live
    from skillwire.ui.overview import Overview
    from skillwire.ui.visit import Visit

_FOLDER: Final = Path(__file__).parent / "templates"


class Templates:
    """The templates of the page."""

    def __init__(self, **shared: Any) -> None:
        self._shared = shared

    def render(self, name: str, /, **values: Any) -> str:
        return _environment().get_template(name).render({**self._shared, **values})


class Layout:
    """What all pages of a session have around them: the navigation with its counts, and a notice."""

    def __init__(self, templates: Templates, overview: Overview, live: Live, *, has_audit: bool) -> None:
        self._templates = templates
        self._overview = overview
        self._live = live
        self._has_audit = has_audit

    def render(self, visit: Visit, template: str, section: str, /, **values: Any) -> HTMLResponse:
        """The page of one template, in this section of the navigation."""
        body = self._templates.render(
            template,
            section=section,
            nonce=visit.nonce,
            form_token=visit.session.form_token,
            notice=visit.take_notice(),
            here=visit.here,
            revision=self._live.revision,
            waiting=len(self._overview.waiting()),
            skill_count=len(self._overview.reviews()),
            version=VERSION,
            is_alone=visit.session.only is not None,
            has_audit=self._has_audit,
            **values,
        )
        return HTMLResponse(body)


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
