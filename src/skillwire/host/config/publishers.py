"""The publishers of a configuration, with their keys and certificates read from disk."""

from __future__ import annotations

from collections.abc import Iterable

from skillwire.files import expand_user
from skillwire.host.config.configured import ConfiguredPublisher
from skillwire.sources.directory.signing import read_pem
from skillwire.trust.publishers import Publisher


def load_publishers(configured: Iterable[ConfiguredPublisher]) -> list[Publisher]:
    """Each publisher with its keys; `SourceError` or `FormatError` names a file that cannot be used."""
    return [_load(one) for one in configured]


def _load(configured: ConfiguredPublisher) -> Publisher:
    text = configured.text

    def pem(path: str) -> bytes | None:
        return read_pem(configured.directory / expand_user(path)) if path else None

    return Publisher.from_pem(
        configured.name,
        key=pem(text.key),
        root=pem(text.root),
        timestamp_root=pem(text.timestamp_root),
        identity=text.identity,
        issuer=text.issuer,
    )
