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
    peek_seconds: float = 5
    """A listing waits this long for the skills that are read early. Those that are late are left out, or
    listed as their index describes them."""
    peek_bytes: int = 1 * MIB
    """VER-5: a longer `SKILL.md` is not read early."""
    uri_bytes: int = 8192
    """A longer URI is refused without parsing it."""
    message_bytes: int = 64 * MIB
    """A longer line on standard input is dropped and answered with an error."""
    http_body_bytes: int = 1 * MIB
    """A longer HTTP body is refused with status 413. Publishing to a registry has a limit of its own."""
    http_loop_bytes: int = 64 * 1024
    """A longer HTTP body is checked in a thread, so that no other request waits for it."""
    http_large_bodies: int = 16
    """The number of HTTP bodies over `http_loop_bytes` that are read at once; others get status 503."""
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
    http_failed_credentials_per_minute: int = 120
    """An address that sends more credentials that are not valid gets status 429, unless its credential was
    valid before. 0 means no limit."""
    http_requests_per_minute: int = 30_000
    """A caller with a credential who makes more requests gets status 429. 0 means no limit."""
    http_requests_at_once: int = 256
    """A caller with a credential who has this many open requests, streams included, gets status 429."""
    http_views: int = 2_000
    """The number of servers that are kept for different callers or permissions. If all of them are in use,
    additional ones get status 503."""
    http_cache_bytes: int = 64 * MIB
    """The responses that are cached for different callers or permissions: each new server gets its share."""
    response_cache_bytes: int = 16 * MIB
    """The responses that one server caches at most."""
    http_views_per_caller: int = 8
    """The number of servers that one caller of a gateway uses with different credentials that are passed on;
    additional ones get status 503."""
    http_view_idle_seconds: float = 900
    """A server for one caller or view is closed after this time without a request."""
    http_revoke_seconds: float = 1
    """The interval at which the callers of open streams are checked again."""
    http_health_seconds: float = 2
    """A check of readiness that takes longer has failed."""
    upstream_seconds: float = 5
    """How long a request to a gateway waits for a server behind it. What arrives later is cached."""
    upstream_idle_seconds: float = 60
    """A gateway closes a connection with a caller's own credential after this time without use."""
    sessions: int = 10_000
    """Additional sessions of the 2025 revisions over HTTP get status 503."""
    session_idle_seconds: float = 1_800
    """A session of a 2025 revision ends after this time without a request."""
    registry_stale_seconds: float = 60
    """While the database of a registry does not answer, known callers are served from memory for this time. A
    revoked token ends no later."""
    registry_queue: int = 256
    """Additional publications that wait for their turn at a replica get status 503."""
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
    first_list_seconds: float = 5
    """How long a gateway's first lists wait for servers of which nothing is known yet."""
    introduction_seconds: float = 1
    """How long a gateway's greeting waits for the names of skills, and a list for one newer than the last."""
    connect_seconds: float = 10
    """The time for connecting to a server."""
    call_seconds: float = 30
    """SEC-9: a request without a response by then has failed."""
    review_seconds: float = 20
    """How long a question waits for the files of a skill without digests. It covers those that arrived."""
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
    change_seconds: float = 1
    """The minimum interval between two reactions to change notifications of a server."""
    listing_ttl_seconds: float = 60
    """A listing without a time to live is requested again after this time, while a host is open."""
    followed_directories: int = 500
    """The number of directories of one server that a host subscribes to."""
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
    search_vectors: int = 20_000
    """The number of skills that search by meaning covers. Others are found by their words alone."""
    usage_skills: int = 10_000
    """The number of skills whose use is counted. Those that were not used for the longest time go first."""
    evaluated_questions: int = 20_000
    """A file with more questions for `skillwire eval` is refused."""
    description_chars: int = 1024
    """FMT-2: a longer description is shortened where it is shown."""
    file_pointers: int = 100
    """The number of supporting files that a loaded skill names. The rest are counted and can be listed."""
    tools_per_server: int = 500
    """SEC-9: a list of tools with more of them is cut off."""
    tool_schema_chars: int = 32 * 1024
    """A tool with a longer description and schema is left out."""
    tool_result_chars: int = 100_000
    """A longer result of a server's tool is cut off."""
    index_bytes: int = 256 * MIB
    """A larger scan cache is not read."""
    index_line_bytes: int = 16 * MIB
    """A longer line of a scan cache is treated as damage."""
    scan_caches: int = 64
    """The number of scan caches that are kept. The least recently used are removed."""
    index_seconds: float = 90 * 24 * 3600
    """A scan cache that was not used for this long is removed."""
    archive_bytes: int = 10 * MIB
    """A longer archive, or any other file of a site, is cut off while it arrives."""
    unpacked_bytes: int = 25 * MIB
    """An archive with more content is refused before it is unpacked."""
    path_bytes: int = 1024
    """A longer path of a file in an archive, a repository or a publication is refused."""
    archive_files: int = 1000
    """An archive with more files is refused."""
    repository_bytes: int = 256 * MIB
    """The skills of a git repository with more bytes are not read. A folder of it can be named instead."""
    repository_paths: int = 200_000
    """A git repository with more paths, or 120 bytes for each of them, is refused. A folder can be named."""
    repository_files: int = 50_000
    """A git repository whose skills have more files is refused. A folder of it can be named instead."""
    nested_skills: int = 4
    """The number of skills inside each other whose files are served. A deeper one is part of the others."""
    repository_fetch_bytes: int = 1024 * MIB
    """A git repository that sends more is refused."""
    git_seconds: float = 300
    """A `git` command that takes longer is ended."""
    site_skills: int = 1000
    """A site that lists more skills is refused."""
    kept_versions: int = 10
    """The number of earlier versions of an installed skill that are kept for rollback."""
    document_bytes: int = 8 * MIB
    """A longer JSON, TOML or YAML text, such as a lock file or a configuration, is refused unparsed."""
    document_values: int = 600_000
    """A JSON, TOML or YAML text with more values is refused without building them; a short one with fewer."""
    document_depth: int = 64
    """The maximum nesting of a JSON or YAML text."""
    number_digits: int = 400
    """A JSON or TOML number with more digits is refused without converting it."""
    script_seconds: float = 120
    """A script in the sandbox that takes longer is ended."""
    script_memory_bytes: int = 1024 * MIB
    """A script in the sandbox whose processes need more memory together is ended."""
    script_processes: int = 64
    """A script in the sandbox that has more processes at once is ended, or cannot start more."""
    script_disk_bytes: int = 256 * MIB
    """The size of a script's scratch folder; one that writes more into a granted folder is ended."""
    script_files: int = 10_000
    """A script in the sandbox that creates more files is ended."""
    script_open_files: int = 512
    """The files that a process in the sandbox has open at once."""
    script_output_bytes: int = 4 * MIB
    """A script in the sandbox that prints more is ended."""
    script_tool_chars: int = 40_000
    """The most that a model is shown of the output and files of a script."""
    scan_seconds: float = 60
    """A scanner of a policy that takes longer is ended, unless the policy gives it another time."""
    scans_at_once: int = 2
    """The number of scanners that a process runs at once; others wait."""
    scripts_at_once: int = 16
    """The number of scripts that a host runs at once; others wait."""

    def __repr__(self) -> str:
        """Only what differs from the defaults, to keep signatures and tracebacks readable."""
        changed = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
        return f"Limits({', '.join(changed)})"


DEFAULT_LIMITS = Limits()
