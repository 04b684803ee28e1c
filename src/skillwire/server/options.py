"""ServerOptions: how skills are served, for `SkillServer`, `add_skills` and `SkillsExtension` alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.legacy.features import LegacyFeatures


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How skills are served."""

    ttl_ms: int = 60_000
    """How long clients may cache a result, in milliseconds (LST-2, GET-2)."""
    cache_scope: Literal["public", "private"] = "public"
    """Whether a cache between server and client may share results among users."""
    page_size: int = 100
    """The number of items on one page of a listing."""
    unlisted: tuple[str, ...] = ()
    """Glob patterns over skill paths, such as `internal/*`. Matching skills are served but not listed."""
    legacy_features: LegacyFeatures = field(default_factory=LegacyFeatures)
    """What is served to clients without the skills extension."""
    watch: bool = True
    """Whether to watch for changes and notify clients. Otherwise a change is noticed when a file is read."""
    limits: Limits = DEFAULT_LIMITS
    """The limits of the server."""

    def __post_init__(self) -> None:
        if self.ttl_ms < 0:
            raise ValueError("ttl_ms must not be negative")
        if self.page_size < 1:
            raise ValueError("page_size must be at least 1")


DEFAULT_OPTIONS = ServerOptions()
