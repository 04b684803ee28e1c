"""ServeOptions: what `skillwire serve` was given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from skillwire.limits import Limits
    from skillwire.server.legacy.features import IndexShape, ToolsMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of the command, as they were given."""

    paths: tuple[str, ...]
    locked: Path | None
    installed: bool
    store: str | None
    channel: str | None
    oauth_issuer: str | None
    oauth_audience: str | None
    oauth_groups_claim: str | None
    refresh: float
    well_known: bool
    http: str | None
    allow_host: tuple[str, ...]
    token_file: Path | None
    unsafe_no_auth: bool
    stateless: bool
    max_connections: int
    max_connections_per_address: int
    max_body_bytes: int
    max_sessions: int
    session_timeout: float
    head_timeout: float
    body_timeout: float
    write_timeout: float
    idle_timeout: float
    name: str | None
    instructions: str | None
    access_log: bool
    log_format: Literal["text", "json"]
    ttl: float
    cache_scope: Literal["public", "private"] | None
    page_size: int
    unlisted: tuple[str, ...]
    allow_oversize: bool
    strict: bool
    follow_links: bool
    watch: bool
    fast_path: bool
    scan_cache: bool
    print_config: str | None
    index: IndexShape
    manifests: bool
    prompt_xml: bool
    tools: ToolsMode
    prompts: bool
    list_legacy: bool
    list_files: bool

    def limits(self) -> Limits:
        """The limits of an HTTP server that these options set."""
        from skillwire.limits import Limits

        return Limits(
            http_connections=self.max_connections,
            http_connections_per_address=self.max_connections_per_address,
            http_body_bytes=self.max_body_bytes,
            http_head_seconds=self.head_timeout,
            http_body_seconds=self.body_timeout,
            http_write_seconds=self.write_timeout,
            http_idle_seconds=self.idle_timeout,
            sessions=self.max_sessions,
            session_idle_seconds=self.session_timeout,
        )
