"""Limits: every cap in one frozen value, so that none hides in the code."""

from __future__ import annotations

from dataclasses import dataclass, fields

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """Caps that act before a buffer fills. The defaults are what every host must be able to load."""

    files_per_skill: int = 512
    """ENT-6: a skill with more files may be declined."""
    bytes_per_skill: int = 16 * MIB
    """ENT-6: a skill with more bytes may be declined."""
    body_bytes: int = 16 * MIB
    """A `SKILL.md` with more text below its frontmatter is not loaded; a host style may say less."""
    peeks: int = 500
    """VER-5: of so many skills without metadata the frontmatter is read early, where a style does that."""
    peek_bytes: int = 1 * MIB
    """VER-5: a longer `SKILL.md` is not peeked at."""
    uri_bytes: int = 8192
    """A longer URI is refused unread."""
    message_bytes: int = 64 * MIB
    """A longer line on standard input is dropped and answered with an error."""
    http_body_bytes: int = 16 * MIB
    """A longer HTTP body is refused with status 413."""
    http_connections: int = 2_000
    """A further HTTP connection gets status 503."""
    http_connections_per_address: int = 512
    """A further HTTP connection from the same address gets status 503."""
    http_head_seconds: float = 10
    """A connection that has not sent the head of a request by then is closed with status 408."""
    http_body_seconds: float = 60
    """A request whose body has not arrived by then is answered with status 408."""
    http_write_seconds: float = 30
    """A connection that took less than 64 KiB of a waiting response in this time is cut off."""
    http_idle_seconds: float = 75
    """A connection between two requests is closed after this time."""
    sessions: int = 10_000
    """A further session of a 2025 revision over HTTP gets status 503."""
    session_idle_seconds: float = 1_800
    """A session of a 2025 revision without a request for this long ends."""
    directories_per_root: int = 100_000
    """A walk over more directories than this is given up: links can make a small tree endless."""
    directory_depth: int = 64
    """A directory deeper than this below its root is left out."""
    prompt_xml_chars: int = 100_000
    """`skill://prompt-xml` is not longer than this; what does not fit is counted in it."""
    subscriptions_per_client: int = 1000
    """A connection that asks for more is refused; one subscription to a directory covers all below it."""
    subscriptions: int = 100_000
    """All clients together cannot ask for more."""
    listeners: int = 1000
    """So many streams of notifications can be open at once."""
    tool_description_chars: int = 8_000
    """Names of skills in the description of a tool take no more room; beyond that there is a search."""
    frontmatter_bytes: int = 64 * 1024
    """A longer block of YAML is refused unread, and aliases may not make it longer than that either."""
    frontmatter_depth: int = 32
    """Lists and mappings inside one another, at most."""
    issues_per_file: int = 50
    """A file with more mistakes than this is not read to its end."""
    pages: int = 200
    """SEC-9: a listing with more pages is given up."""
    entries_per_server: int = 20_000
    """SEC-9: a listing with more entries is given up."""
    listing_chars: int = 64 * MIB
    """SEC-9: a listing that holds more text than this is given up."""
    answer_bytes: int = 32 * MIB
    """SEC-9: a longer answer of a server is cut off while it arrives. A full skill file fits in base64."""
    bytes_per_server: int = 256 * MIB
    """SEC-9: so much content is taken from one server while a host is open."""
    unasked_messages: int = 2_000
    """SEC-9: a server that sends more requests and notifications at once that nobody asked for is cut off."""
    unasked_messages_per_second: float = 50
    """SEC-9: so many a second are allowed for as long as a server is connected."""
    listing_seconds: float = 120
    """A host that opens waits no longer for one listing, however steadily its pages arrive."""
    connect_seconds: float = 10
    """A server that has not said who it is by then is given up, for now."""
    call_seconds: float = 30
    """SEC-9: a request that has no answer by then has failed."""
    verified_skills: int = 200
    """`skillwire verify` reads the files of so many skills of a server; it lists all of them."""
    verified_bad_entries: int = 1_000
    """SEC-9: `skillwire verify` reads a listing up to so many entries without a usable URI of their own."""
    verified_directories: int = 5_000
    """`skillwire verify` walks so many directories of a server."""
    verify_seconds: float = 1800
    """A server that has not been verified by then is given up: one that answers slowly can take for ever."""
    min_ttl_seconds: float = 5
    """A listing is kept at least so long, whatever its server says."""
    change_seconds: float = 5
    """News of what changed on a server are acted on no more often than this."""
    max_ttl_seconds: float = 3600
    """A listing is kept at most so long, whatever its server says."""
    instructions_chars: int = 64 * 1024
    """So much of a server's instructions is searched for skills that it names."""
    linked_skills: int = 16
    """LST-3: so many skills that a server's instructions name are looked up."""
    catalog_chars: int = 16_000
    """The catalog in a system prompt is no longer than this; what does not fit is counted and said."""
    search_query_chars: int = 500
    """What is searched for is read up to here."""
    search_results: int = 20
    """A search finds so many skills unless it is asked for more or fewer."""
    search_chars: int = 8_000
    """What a search tells a model is no longer than this; what does not fit is counted and said."""
    search_text_bytes: int = 8 * MIB
    """The text of so many bytes of `SKILL.md` is searched; of other skills the name and description."""
    description_chars: int = 1024
    """FMT-2: a longer description is shortened where it is shown."""
    file_pointers: int = 100
    """A loaded skill points to so many supporting files; the rest is counted and can be listed."""
    index_bytes: int = 256 * MIB
    """A longer index of what was scanned is not read."""
    index_line_bytes: int = 16 * MIB
    """A longer line of an index is taken for damage."""
    indexes: int = 64
    """So many indexes are kept; those that were used last stay."""
    index_seconds: float = 90 * 24 * 3600
    """An index that was not used for so long is removed."""
    archive_bytes: int = 10 * MIB
    """An archive, or any other file of a site, that is longer is cut off while it arrives."""
    unpacked_bytes: int = 25 * MIB
    """An archive that holds more is refused before it is unpacked."""
    archive_files: int = 1000
    """An archive with more files is refused."""
    repository_bytes: int = 256 * MIB
    """The skills of a git repository that have more bytes are not read; a folder of it can be named."""
    repository_fetch_bytes: int = 1024 * MIB
    """A git repository that sends more than this is given up."""
    git_seconds: float = 300
    """A call of `git` that takes longer is ended."""
    site_skills: int = 1000
    """A site that lists more skills is refused."""
    kept_versions: int = 10
    """So many earlier versions of an installed skill are kept to roll back to."""
    lock_bytes: int = 16 * MIB
    """A longer lock file is refused unread."""
    config_bytes: int = 16 * MIB
    """A longer configuration file, of ours or of another client, is refused unread."""

    def __repr__(self) -> str:
        """Only what differs from the defaults: forty values would drown a signature or a traceback."""
        changed = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
        return f"Limits({', '.join(changed)})"


DEFAULT_LIMITS = Limits()
