"""HTML: templates in which every value is escaped, and Markdown of a skill as HTML that can do nothing.

Of Markdown, an allow-list of elements is shown, and every text is escaped. Raw HTML stays text. A link shows
where it leads and leads nowhere; only a link to another file of the skill becomes one to that file on this
page. An image is named, never fetched.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import anyio
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from skillwire.text import safe_line, safe_text
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

    from skillwire.host import SkillHost
    from skillwire.ui.access import Visit
    from skillwire.ui.items import Overview

_FOLDER: Final = Path(__file__).parent / "templates"


class Templates:
    """The templates of the page."""

    def __init__(self, **shared: Any) -> None:
        self._shared = shared

    def render(self, name: str, /, **values: Any) -> str:
        return _environment().get_template(name).render({**self._shared, **values})


class Layout:
    """The frame of all pages of a session: the navigation with its counts, and a notice."""

    def __init__(
        self,
        templates: Templates,
        overview: Overview,
        *,
        has_audit: bool,
        hidden: Callable[[], Sequence[str]],
    ) -> None:
        self._templates = templates
        self._overview = overview
        self._has_audit = has_audit
        self._hidden = hidden

    def render(self, visit: Visit, template: str, section: str, /, **values: Any) -> HTMLResponse:
        """The page of one template, in this section of the navigation."""
        skill_count = len(self._overview.reviews())
        body = self._templates.render(
            template,
            section=section,
            nonce=visit.nonce,
            root=visit.session.root,
            form_token=visit.session.form_token,
            notice=visit.take_notice(),
            here=visit.here,
            revision=visit.revision,
            waiting=len(self._overview.waiting()),
            skill_count=skill_count,
            hiding_rules=() if skill_count else self._hidden(),
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


MOST_CHARS: Final = 200_000
"""A longer text is not rendered; its raw text is shown."""
_MOST_TARGET_CHARS: Final = 300
_NESTING: Final = 20
# Headings go below those of the page itself.
_TAGS: Final[Mapping[str, str]] = {
    "paragraph": "p",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "em": "em",
    "strong": "strong",
    "s": "s",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
_HEADING_LEVEL: Final = {"h1": 3, "h2": 4, "h3": 5, "h4": 6, "h5": 6, "h6": 6}
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
FRONTMATTER: Final = re.compile(r"\A---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def render_markdown(
    text: str, *, folder: str = "", files: Collection[str] = (), link: Callable[[str], str] = lambda _: ""
) -> Markup:
    """The text as HTML, its frontmatter left out.

    `files` are the paths of the skill and `folder` is the folder of the text; `link` gives the
    address at which this page shows a file.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable(
        ["table", "strikethrough"]
    )
    body = safe_text(FRONTMATTER.sub("", text, count=1))
    return _Renderer(folder, files, link).blocks(parser.parse(body))


class _Renderer:
    def __init__(self, folder: str, files: Collection[str], link: Callable[[str], str]) -> None:
        self._folder = folder
        self._files = files
        self._link = link

    def blocks(self, tokens: Sequence[Token]) -> Markup:
        parts: list[str] = []
        for token in tokens:
            parts.append(self._inline(token.children or []) if token.type == "inline" else self._block(token))
        return Markup("".join(parts))  # noqa: S704 - made of escaped texts and of tags of ours

    def _block(self, token: Token) -> str:
        match token.type:
            case "fence" | "code_block":
                return f'<pre tabindex="0"><code>{escape(token.content)}</code></pre>'
            case "hr":
                return "<hr>"
            case "heading_open" | "heading_close":
                level = _HEADING_LEVEL.get(token.tag, 6)
                return f"<h{level}>" if token.nesting > 0 else f"</h{level}>"
            case _:
                return self._element(token)

    def _element(self, token: Token) -> str:
        tag = _TAGS.get(token.type.removesuffix("_open").removesuffix("_close"))
        if tag is None or token.hidden:
            # What is not on the list is text, or nothing.
            return "" if token.nesting or token.hidden else str(escape(token.content))
        if token.nesting < 0:
            return f"</{tag}>"
        start = token.attrGet("start") if tag == "ol" else None
        return f'<ol start="{start}">' if isinstance(start, int) else f"<{tag}>"

    def _inline(self, tokens: Sequence[Token]) -> str:
        parts: list[str] = []
        open_links: list[str] = []
        for token in tokens:
            match token.type:
                case "text" | "html_inline" | "text_special":
                    parts.append(str(escape(token.content)))
                case "code_inline":
                    parts.append(f"<code>{escape(token.content)}</code>")
                case "softbreak":
                    parts.append("\n")
                case "hardbreak":
                    parts.append("<br>")
                case "link_open":
                    before, after = self._link_parts(str(token.attrGet("href") or ""))
                    parts.append(before)
                    open_links.append(after)
                case "link_close":
                    parts.append(open_links.pop() if open_links else "")
                case "image":
                    parts.append(self._image(token))
                case _:
                    parts.append(self._element(token))
        return "".join(parts)

    def _link_parts(self, target: str) -> tuple[str, str]:
        path = self._own_file(target)
        if path:
            return f'<a href="{escape(self._link(path))}">', "</a>"
        return '<span class="link">', f'</span> <span class="target">{_shown_target(target)}</span>'

    def _image(self, token: Token) -> str:
        alt = escape(token.content or "no description")
        target = _shown_target(str(token.attrGet("src") or ""))
        return f'<span class="picture">image: {alt}</span> <span class="target">{target}</span>'

    def _own_file(self, target: str) -> str:
        """The path of a file of this skill that a link means; empty for anything else."""
        if _SCHEME.match(target) or target.startswith(("/", "#")):
            return ""
        path = posixpath.normpath(
            posixpath.join(self._folder, unquote(target.partition("#")[0].partition("?")[0]))
        )
        return path if path in self._files else ""


def _shown_target(target: str) -> Markup:
    return escape(f"‹{safe_line(unquote(target), limit=_MOST_TARGET_CHARS)}›")


_PAUSE_SECONDS: Final = 0.15
"""How long changes are collected before the pages are notified: a listing brings hundreds at once."""
_KEEP_ALIVE_SECONDS: Final = 15.0
MOST_STREAMS: Final = 32


class Live:
    """The number of the last change, and those waiting for the next one."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._event = anyio.Event()
        self._closed = False
        host.log.on_change(self.changed)
        self.revision = 1
        self.streams = 0

    def changed(self) -> None:
        """Record that something that a page shows has changed."""
        self.revision += 1
        self._wake()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    async def run(self) -> None:
        """Follow the events of the host until canceled."""
        async for _ in self._host.log.events():
            self.changed()

    async def next_change(self) -> None:
        """Wait until something changes, and for the changes that come with it."""
        await self._event.wait()
        await anyio.sleep(_PAUSE_SECONDS)

    async def stream(self, after: int) -> AsyncGenerator[bytes]:
        """The events of one page, from the first that it has not seen."""
        self.streams += 1
        try:
            yield b"retry: 2000\n\n"
            while not self._closed:
                if after != self.revision:
                    await anyio.sleep(_PAUSE_SECONDS)
                    after = self.revision
                    yield f"id: {after}\nevent: change\ndata: {after}\n\n".encode()
                    continue
                waiting = self._event
                with anyio.move_on_after(_KEEP_ALIVE_SECONDS) as scope:
                    await waiting.wait()
                if scope.cancelled_caught:
                    yield b": still here\n\n"
        finally:
            self.streams -= 1

    def _wake(self) -> None:
        event, self._event = self._event, anyio.Event()
        event.set()
