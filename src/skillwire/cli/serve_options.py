"""What `skillwire serve` can be told: one table, from which both ways to read a command line are made.

`quick.py` reads the plain ones at once; `serve_command.py` has typer read all the others, and explain them.
"""

# No `annotations` from `__future__` in this file: the types of the fields are read, and must not be text.
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from skillwire.server.legacy.features import IndexShape, ToolsMode

TOKEN_VARIABLE: Final = "SKILLWIRE_TOKEN"  # noqa: S105 - the name of a variable, not a token
_YEAR: Final = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Option:
    """How an option is spelled and explained. A flag may have a second name, which turns it off.

    The one without a name is the argument.
    """

    spelling: str
    help: str
    metavar: str | None = None
    least: float | None = None
    most: float | None = None

    @property
    def names(self) -> list[str]:
        return self.spelling.split("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """A value for each option."""

    paths: Annotated[
        list[str],
        Option("", "Directories of skills; PREFIX=PATH puts a prefix before them.", metavar="PATH..."),
    ]
    http: Annotated[
        str | None, Option("--http", "Serve Streamable HTTP at /mcp instead of stdio.", metavar="HOST:PORT")
    ] = None
    allow_host: Annotated[
        list[str] | None,
        Option("--allow-host", "Accept this Host and Origin too. Repeatable.", metavar="NAME"),
    ] = None
    token_file: Annotated[
        Path | None,
        Option(
            "--token-file", f"Bearer token; {TOKEN_VARIABLE} in the environment works too.", metavar="FILE"
        ),
    ] = None
    unsafe_no_auth: Annotated[
        bool, Option("--unsafe-no-auth", "Listen on a public address without a token.")
    ] = False
    stateless: Annotated[bool, Option("--stateless", "Keep no sessions over HTTP.")] = False
    ttl: Annotated[
        float,
        Option("--ttl", "How long clients may keep an answer.", metavar="SECONDS", least=0, most=_YEAR),
    ] = 60
    cache_scope: Annotated[
        Literal["public", "private"] | None,
        Option("--cache-scope", "Who may share a kept answer. Private by default when there is a token."),
    ] = None
    page_size: Annotated[
        int, Option("--page-size", "Skills per page of a listing.", metavar="N", least=1, most=1000)
    ] = 100
    unlisted: Annotated[
        list[str] | None,
        Option("--unlisted", "Serve but do not list skills of this path. Repeatable.", metavar="GLOB"),
    ] = None
    allow_oversize: Annotated[
        bool, Option("--allow-oversize", "Serve skills that hosts may decline as too large.")
    ] = False
    strict: Annotated[bool, Option("--strict", "Refuse to start when anything has a problem.")] = False
    watch: Annotated[
        bool, Option("--watch/--no-watch", "Follow changes on disk, and tell clients of them.")
    ] = True
    scan_index: Annotated[
        bool,
        Option(
            "--scan-index/--no-scan-index", "Remember digests, so that the next start reads what changed."
        ),
    ] = True
    index: Annotated[
        IndexShape, Option("--index", "The shape of skill://index.json, for clients of older drafts.")
    ] = "d2"
    manifests: Annotated[
        bool, Option("--manifests/--no-manifests", "Serve skill://NAME/_manifest, for FastMCP.")
    ] = True
    prompt_xml: Annotated[
        bool, Option("--prompt-xml/--no-prompt-xml", "Serve the catalog at skill://prompt-xml.")
    ] = True
    tools: Annotated[
        ToolsMode,
        Option("--tools", "Offer load_skill and its like; auto hides them from who knows the extension."),
    ] = "auto"
    prompts: Annotated[
        bool, Option("--prompts/--no-prompts", "Offer each skill as a prompt, a slash command.")
    ] = True

    @property
    def idle_without_http(self) -> list[str]:
        """The options given that do nothing over stdio: who asks for protection must not believe in it."""
        if self.http is not None:
            return []
        given = {
            "--token-file": self.token_file,
            "--allow-host": self.allow_host,
            "--stateless": self.stateless,
        }
        return [name for name, value in given.items() if value]


@dataclass(frozen=True, slots=True)
class Row:
    """An option in the table: the field that keeps it, the type, the default, and how it is written."""

    field: str
    kind: Any
    default: object
    option: Option

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


def table() -> Iterator[Row]:
    """Every option, in the order of the help."""
    for one in fields(ServeOptions):
        kind, option = get_args(one.type)
        yield Row(one.name, kind, one.default, option)
