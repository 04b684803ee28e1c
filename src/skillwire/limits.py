"""Limits: every limit in one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits:
    """Limits that apply before a buffer fills. The defaults are what every host must be able to load."""

    files_per_skill: int = 512
    """ENT-6: a skill with more files may be refused."""
    bytes_per_skill: int = 16 * MIB
    """ENT-6: a skill with more bytes may be refused."""
    body_bytes: int = 16 * MIB
    """A `SKILL.md` with a longer body is not loaded. A host style may have a lower limit."""
    peeks: int = 500
    """VER-5: the number of skills without metadata whose frontmatter may be read early."""
    peek_bytes: int = 1 * MIB
    """VER-5: a longer `SKILL.md` is not read early."""
    uri_bytes: int = 8192
    """A longer URI is refused without parsing it."""
    message_bytes: int = 64 * MIB
    """A longer line on standard input is dropped and answered with an error."""
    http_body_bytes: int = 16 * MIB
    """A longer HTTP body is refused with status 413."""
    http_connections: int = 2_000
    """Additional HTTP connections get status 503."""
    http_connections_per_address: int = 512
    """Additional HTTP connections from the same address get status 503."""
    http_head_seconds: float = 10
    """A connection that has not sent the head of a request by then is closed with status 408."""
    http_body_seconds: float = 60
    """A request whose body has not arrived by then is answered with status 408."""
    http_write_seconds: float = 30
    """A client that reads less than 64 KiB of a waiting response in this time is disconnected."""
    http_idle_seconds: float = 75
    """A connection is closed after this time between two requests."""
    sessions: int = 10_000
    """Additional sessions of the 2025 revisions over HTTP get status 503."""
    session_idle_seconds: float = 1_800
    """A session of a 2025 revision ends after this time without a request."""
    directories_per_root: int = 100_000
    """A walk stops after this number of directories, because links can make a small tree endless."""
    directory_depth: int = 64
    """A directory deeper than this below its root is left out."""
    prompt_xml_chars: int = 100_000
    """The longest `skill://prompt-xml`. Skills that do not fit are counted in it."""
    subscriptions_per_client: int = 1000
    """The number of subscriptions per connection. One for a directory covers everything below it."""
    subscriptions: int = 100_000
    """The number of subscriptions of all clients together."""
    listeners: int = 1000
    """The number of open notification streams."""
    tool_description_chars: int = 8_000
    """The longest list of skills in the description of a tool. Beyond it, there is a search tool."""
    frontmatter_bytes: int = 64 * 1024
    """A longer block of YAML is refused without parsing it, and aliases may not expand beyond this either."""
    frontmatter_depth: int = 32
    """The maximum nesting of lists and mappings."""
    issues_per_file: int = 50
    """Parsing of a file stops after this number of mistakes."""
    pages: int = 200
    """SEC-9: a listing with more pages is cut off."""
    entries_per_server: int = 20_000
    """SEC-9: a listing with more entries is cut off."""
    listing_chars: int = 64 * MIB
    """SEC-9: a listing with more text is cut off."""
    answer_bytes: int = 32 * MIB
    """SEC-9: a longer response is cut off while it arrives. A full skill file in base64 fits."""
    bytes_per_server: int = 256 * MIB
    """SEC-9: the content that is accepted from one server while a host is open."""
    unasked_messages: int = 2_000
    """SEC-9: a server that sends more unsolicited messages at once is disconnected."""
    unasked_messages_per_second: float = 50
    """SEC-9: the unsolicited messages per second that a connected server may send."""
    listing_seconds: float = 120
    """The longest time that opening a host waits for one listing, even if its pages keep arriving."""
    connect_seconds: float = 10
    """The time for connecting to a server."""
    call_seconds: float = 30
    """SEC-9: a request without a response by then has failed."""
    verified_skills: int = 200
    """The number of skills whose files `skillwire verify` reads. It lists all of them."""
    verified_bad_entries: int = 1_000
    """SEC-9: `skillwire verify` stops a listing after this number of entries without a usable URI."""
    verified_directories: int = 5_000
    """The number of directories that `skillwire verify` walks."""
    verify_seconds: float = 1800
    """`skillwire verify` stops after this time, because a slow server could take forever."""
    min_ttl_seconds: float = 5
    """A listing is cached at least this long, whatever its server says."""
    change_seconds: float = 5
    """The minimum interval between two reactions to change notifications of a server."""
    max_ttl_seconds: float = 3600
    """A listing is cached at most this long, whatever its server says."""
    instructions_chars: int = 64 * 1024
    """The length of a server's instructions that is searched for names of skills."""
    linked_skills: int = 16
    """LST-3: the number of skills named in a server's instructions that are looked up."""
    catalog_chars: int = 16_000
    """The longest catalog in a system prompt. Skills that do not fit are counted in it."""
    search_query_chars: int = 500
    """The longest search query. The rest is ignored."""
    search_results: int = 20
    """The default number of search results."""
    search_chars: int = 8_000
    """The longest search result for a model. Skills that do not fit are counted in it."""
    search_text_bytes: int = 8 * MIB
    """The total size of searched `SKILL.md` bodies. Of other skills, only name and description are."""
    description_chars: int = 1024
    """FMT-2: a longer description is shortened where it is shown."""
    file_pointers: int = 100
    """The number of supporting files that a loaded skill names. The rest are counted and can be listed."""
    index_bytes: int = 256 * MIB
    """A larger scan cache is not read."""
    index_line_bytes: int = 16 * MIB
    """A longer line of a scan cache is treated as damage."""
    indexes: int = 64
    """The number of scan caches that are kept. The least recently used are removed."""
    index_seconds: float = 90 * 24 * 3600
    """A scan cache that was not used for this long is removed."""
    archive_bytes: int = 10 * MIB
    """A longer archive, or any other file of a site, is cut off while it arrives."""
    unpacked_bytes: int = 25 * MIB
    """An archive with more content is refused before it is unpacked."""
    archive_files: int = 1000
    """An archive with more files is refused."""
    repository_bytes: int = 256 * MIB
    """The skills of a git repository with more bytes are not read. A folder of it can be named instead."""
    repository_fetch_bytes: int = 1024 * MIB
    """A git repository that sends more is refused."""
    git_seconds: float = 300
    """A `git` command that takes longer is ended."""
    site_skills: int = 1000
    """A site that lists more skills is refused."""
    kept_versions: int = 10
    """The number of earlier versions of an installed skill that are kept for rollback."""
    lock_bytes: int = 16 * MIB
    """A longer lock file is refused without parsing it."""
    config_bytes: int = 16 * MIB
    """A longer configuration file, ours or another client's, is refused without parsing it."""

    def __repr__(self) -> str:
        """Only what differs from the defaults, to keep signatures and tracebacks readable."""
        changed = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
        return f"Limits({', '.join(changed)})"


DEFAULT_LIMITS = Limits()
