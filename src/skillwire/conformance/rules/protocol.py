"""Rules about the base protocol and the capability, and what a rule consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """How serious a violation is."""

    MUST = "must"
    SHOULD = "should"
    ADVICE = "advice"

    @property
    def is_violation(self) -> bool:
        """Whether it makes `skillwire verify` fail. Advice does not."""
        return self is not Level.ADVICE

    def is_at_least(self, other: Level) -> bool:
        """Whether it is as serious as another level, or more."""
        order = list(Level)
        return order.index(self) <= order.index(other)


AREAS: Final[Mapping[str, str]] = {
    "MCP": "Protocol",
    "CAP": "Capability",
    "LST": "Listing",
    "GET": "Getting one skill",
    "ENT": "Entries",
    "FMT": "Format and names",
    "RD": "Reading files",
    "DIR": "Directories",
    "SIG": "Signatures",
    "LINT": "Advice for authors",
    "TEXT": "Hidden text",
    "PROFILE": "Demands of a profile",
}
"""The areas of a report, in order, by the start of a rule's id."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence of a specification, in our words, and where it is.

    `page` is the URL of the document, and `section` the anchor in it; without one, the whole page is meant.
    """

    says: str
    page: str
    section: str = ""

    @property
    def link(self) -> str:
        return f"{self.page}#{self.section}" if self.section else self.page


@dataclass(frozen=True, slots=True)
class Rule:
    """`expected` is what a conforming server does; `fix` says how to repair one that does not.

    `debatable` says why some readers of the clause might disagree with the rule.
    """

    id: str
    level: Level
    expected: str
    fix: str
    clause: Clause
    debatable: str = ""

    @property
    def requirement(self) -> str:
        return self.id.partition("/")[0]

    @property
    def area(self) -> str:
        return AREAS[self.requirement.partition("-")[0]]


def must(id: str, expected: str, fix: str, clause: Clause) -> Rule:
    return Rule(id, Level.MUST, expected, fix, clause)


def should(id: str, expected: str, fix: str, clause: Clause, *, debatable: str = "") -> Rule:
    return Rule(id, Level.SHOULD, expected, fix, clause, debatable)


def advice(id: str, expected: str, fix: str, clause: Clause) -> Rule:
    return Rule(id, Level.ADVICE, expected, fix, clause)


FORMAT: Final = "https://agentskills.io/specification"
RFC3986: Final = "https://datatracker.ietf.org/doc/html/rfc3986"
_EXTENSION: Final = "https://skills.extensions.modelcontextprotocol.io/specification/stable/skills"
_PROTOCOL: Final = "https://modelcontextprotocol.io/specification/2026-07-28"


def extension(says: str, section: str) -> Clause:
    """A clause of the Skills extension."""
    return Clause(says, _EXTENSION, section)


def protocol(says: str, page: str, section: str = "") -> Clause:
    """A clause of the base protocol."""
    return Clause(says, f"{_PROTOCOL}/{page}", section)


_RESPONSE: Final = protocol(
    "A response repeats the id of its request and has either a result or an error.", "basic", "responses"
)

_BASE_RULES: Final = (
    must(
        "MCP/no-answer",
        "every request is answered in time",
        "answer every request, even if only with an error",
        _RESPONSE,
    ),
    must(
        "MCP/connection",
        "the connection stays open until the client ends it",
        "look for the crash in the server's log",
        _RESPONSE,
    ),
    must(
        "MCP/json-rpc",
        "an answer is one JSON-RPC 2.0 response with a result object or an error, in unambiguous JSON",
        "send jsonrpc, the id of the request, and either result or error",
        Clause(
            "JSON exchanged between systems is UTF-8, and the names in an object are unique.",
            "https://datatracker.ietf.org/doc/html/rfc8259",
            "section-8.1",
        ),
    ),
    must(
        "MCP/stray-answer",
        "each request is answered once, and nothing else is",
        "send one response for each request, with the id of the request, and none for notifications",
        _RESPONSE,
    ),
    must(
        "MCP/http-body",
        "over HTTP an answer is JSON or an event stream, whatever its status",
        "send a JSON-RPC body with Content-Type application/json",
        protocol(
            "Over HTTP a request is answered with JSON or with an event stream.",
            "basic/transports",
            "sending-messages-to-the-server",
        ),
    ),
    must(
        "MCP/accepted",
        "a notification sent over HTTP is acknowledged with status 202",
        "answer with 202 Accepted and no body",
        protocol(
            "A notification that the server accepts is answered with 202 Accepted and no body.",
            "basic/transports",
            "sending-messages-to-the-server",
        ),
    ),
    must(
        "MCP/stdout",
        "standard output carries messages only",
        "write logs to standard error",
        protocol(
            "Over stdio a server writes nothing to standard output that is not a message.",
            "basic/transports",
            "stdio",
        ),
    ),
    should(
        "MCP/answer-size",
        "an answer is no larger than what hosts accept at once",
        "send smaller pages, and keep files within 16 MiB",
        extension("A skill has at most 512 files and 16 MiB in total.", "limits"),
    ),
    must(
        "MCP/opening",
        "the server introduces itself with capabilities, and says which protocol revisions it supports",
        "answer initialize with capabilities, serverInfo and protocolVersion, and "
        "server/discover with capabilities and supportedVersions; instructions are a string or left out",
        protocol("Client and server agree on a protocol revision before anything else.", "basic/lifecycle"),
    ),
    must(
        "MCP/result-type",
        "on 2026-07-28 every result has resultType",
        'put "resultType": "complete" into the result',
        protocol(
            "Every result has a resultType, which is complete for an ordinary result.", "basic", "responses"
        ),
    ),
    must(
        "MCP/cache",
        "on 2026-07-28 server/discover, resources/list and resources/read have ttlMs and cacheScope",
        "add ttlMs, a number of milliseconds, and cacheScope, public or private",
        protocol("Results that can be cached carry ttlMs and cacheScope.", "server/utilities/caching"),
    ),
    must(
        "MCP/concurrent",
        "the same request sent many times at once gets the same answer each time",
        "share no state between requests that run at the same time",
        _RESPONSE,
    ),
    must(
        "MCP/resources-list",
        "resources/list answers with an array of resources, each with a uri and a name, and has a last page",
        "implement resources/list; send an empty array if nothing is listed",
        protocol(
            "A server that declares resources answers resources/list with the resources it has, page by "
            "page.",
            "server/resources",
            "listing-resources",
        ),
    ),
    must(
        "MCP/unsolicited",
        "no notification arrives that was neither declared nor subscribed to",
        "declare listChanged for list_changed, and send updated only to subscribers",
        protocol(
            "A server sends only the notifications that it declared or that the client subscribed to.",
            "server/resources",
            "subscriptions",
        ),
    ),
    must(
        "MCP/server-request",
        "the server requests nothing that this client did not declare",
        "check the client's capabilities before sending it a request",
        protocol("A server requests only what the client declared in its capabilities.", "basic/lifecycle"),
    ),
)

_DECLARE: Final = extension(
    "A server declares the extension in the extensions field of its capabilities, as an object of settings.",
    "capability-negotiation",
)
_SETTING: Final = extension(
    "The one setting is directoryRead, a boolean; an empty object means no optional features.",
    "capability-negotiation",
)
_METHODS: Final = extension(
    "A server that declares the extension implements skills/list and skills/get, and with directoryRead also "
    "resources/directory/read.",
    "capability-negotiation",
)
_CAPABILITY_RULES: Final = (
    must(
        "CAP-1/declared",
        "capabilities.extensions has io.modelcontextprotocol/skills",
        "declare the extension under capabilities.extensions",
        _DECLARE,
    ),
    must(
        "CAP-1/experimental",
        "the declaration is under extensions",
        "move it from capabilities.experimental to capabilities.extensions",
        _DECLARE,
    ),
    must("CAP-1/object", "the declaration is an object", "write {} if there are no options", _DECLARE),
    must(
        "CAP-1/inline",
        "settings are direct members of the declaration",
        "move the settings out of the object around them",
        _SETTING,
    ),
    must("CAP-1/flag", "directoryRead is true or false", "write a JSON boolean", _SETTING),
    must(
        "CAP-1/directory-read",
        "a server that declares directoryRead implements resources/directory/read",
        "implement the method, or stop declaring directoryRead",
        _METHODS,
    ),
    must(
        "CAP-2/resources",
        "a server that declares skills declares resources as well",
        "add resources to the capabilities",
        extension(
            "A server that declares the extension also declares the resources capability.",
            "capability-negotiation",
        ),
    ),
    must(
        "CAP-2/list", "a server that declares skills implements skills/list", "implement the method", _METHODS
    ),
    must(
        "CAP-2/get", "a server that declares skills implements skills/get", "implement the method", _METHODS
    ),
    should(
        "CAP-2/reserved",
        "a method under skills/ that the extension does not define is refused with -32601",
        "give a method of your own another prefix, such as your domain",
        extension(
            "The skills/ prefix of methods is reserved for this extension and its later versions.",
            "capability-negotiation",
        ),
    ),
    advice(
        "CAP-4/one-revision",
        "skills are available to clients of the 2025 revisions and of 2026-07-28",
        "support both, or accept that some clients cannot connect",
        extension(
            "The extension is specified against protocol revision 2026-07-28 or later.", "protocol-revision"
        ),
    ),
    should(
        "CAP-4/declared",
        "the extension is declared on every protocol revision that the server supports",
        "declare it whatever revision a client uses: clients call skills/* only where it is declared",
        _DECLARE,
    ),
    should(
        "CAP-4/declaration",
        "the declaration is the same on both protocol revisions",
        "declare the same settings whatever revision a client uses",
        _SETTING,
    ),
    should(
        "CAP-4/entries",
        "the same skills are listed on both protocol revisions, with the same entries",
        "build the entries in one place for all revisions",
        extension("An entry has the same shape and meaning wherever it is returned.", "skill-entries"),
    ),
)

PROTOCOL_RULES: Final = (*_BASE_RULES, *_CAPABILITY_RULES)
