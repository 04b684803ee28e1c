"""Every requirement of the Skills extension that Skillwire meets, in our own words.

A test shows a requirement by the mark `@pytest.mark.requirement("RD-2")`. `test_requirements.py` fails when a
requirement has no such test, and when a test names one that is not here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Side(enum.Enum):
    """Who has to meet a requirement."""

    SERVER = "server"
    HOST = "host"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    side: Side
    text: str


SERVER, HOST, BOTH = Side.SERVER, Side.HOST, Side.BOTH

REQUIREMENTS = (
    # Capability
    Requirement(
        "CAP-1", SERVER, "The extension is declared as an object that says whether directories can be read."
    ),
    Requirement(
        "CAP-2", SERVER, "A server that declares it answers skills/list and skills/get, and has resources."
    ),
    Requirement("CAP-3", HOST, "No method is called that the server has not declared."),
    Requirement(
        "CAP-4", BOTH, "Everything works on the 2025 revisions and 2026-07-28; hosts declare it too."
    ),
    Requirement(
        "CAP-5", HOST, "Three malformed declarations seen in the field are understood, and never written."
    ),
    # Format and URIs
    Requirement(
        "FMT-1", BOTH, "A skill is a directory whose SKILL.md opens with a name and a description in YAML."
    ),
    Requirement(
        "FMT-2", BOTH, "Names, descriptions and the other fields stay within limits; unknown fields are kept."
    ),
    Requirement("FMT-3", BOTH, "A skill's URI ends in its name, after a prefix of the server's choice."),
    Requirement("FMT-4", BOTH, "A skill's directory is its SKILL.md URI without the last segment and slash."),
    Requirement("FMT-5", HOST, "An entry makes a resource a skill; the scheme of its URI does not."),
    Requirement("FMT-6", BOTH, "The authority of a URI is a name, and is never looked up."),
    Requirement(
        "FMT-7", SERVER, "The SKILL.md resource is Markdown, named and described by its frontmatter."
    ),
    Requirement(
        "FMT-8", BOTH, "A nested skill has its own entry, and its files are the enclosing skill's too."
    ),
    Requirement(
        "FMT-9", BOTH, "Percent-encoding is decoded once, and no path traversal reaches a file system."
    ),
    Requirement(
        "FMT-10", BOTH, "A relative reference in any file of a skill starts at the root of that skill."
    ),
    # Entries
    Requirement("ENT-1", BOTH, "An entry carries the URI, the whole frontmatter as JSON, and the resources."),
    Requirement(
        "ENT-2", BOTH, "Resources are every file once, inside the skill, or dynamic; nothing else loads."
    ),
    Requirement(
        "ENT-3", BOTH, "A digest is lowercase SHA-256 of the raw bytes, and the size is their length."
    ),
    Requirement(
        "ENT-4", HOST, "A skill is identified by its server's label and its URI, everywhere and always."
    ),
    Requirement("ENT-5", BOTH, "Skills of the same name coexist, distinguished by path or by origin."),
    Requirement("ENT-6", BOTH, "512 files and 16 MiB load; what is larger is left out with a reason."),
    Requirement("ENT-7", BOTH, "Reserved metadata keys that nobody defined change nothing."),
    Requirement("ENT-8", BOTH, "An entry's _meta survives, and what we add has a prefix of our own."),
    # Methods
    Requirement(
        "LST-1", BOTH, "Listings come in pages of complete entries, and a reload keeps cursors valid."
    ),
    Requirement("LST-2", SERVER, "A listing says how long it is fresh and for whom, from 2026-07-28 on."),
    Requirement("LST-3", BOTH, "A skill that is not listed can be served, and loaded by its URI alone."),
    Requirement(
        "GET-1", BOTH, "A served skill can be fetched by its URI; any other URI is an error that names it."
    ),
    Requirement("GET-2", SERVER, "The result for one skill says how long it is fresh and has no cursor."),
    Requirement(
        "DIR-1", BOTH, "A directory's direct children come as resources, directories marked, in pages."
    ),
    Requirement("DIR-2", SERVER, "Every level can be read as a directory, from the prefixes down."),
    Requirement("DIR-3", SERVER, "A URI that is not a directory here is an error of invalid parameters."),
    Requirement(
        "RD-1", SERVER, "Files are plain resources; an unknown one is an error of invalid parameters."
    ),
    Requirement("RD-2", SERVER, "The served bytes are those of the digest, as text only if text keeps them."),
    # Verification
    Requirement("VER-1", HOST, "Size and digest are checked before any byte of a file is used."),
    Requirement(
        "VER-2", HOST, "The frontmatter of the file and of the entry agree, field by field and type by type."
    ),
    Requirement("VER-3", HOST, "While a skill is in use, only files of its loaded entry are read."),
    Requirement(
        "VER-4",
        HOST,
        "A directory listing adds nothing to a skill; a new or missing child shows a change.",
    ),
    Requirement("VER-5", HOST, "No file is fetched before someone needs it."),
    Requirement("VER-6", HOST, "A failed check refreshes the entry once, tries once more, then refuses."),
    Requirement(
        "VER-7", HOST, "Reading SKILL.md as a resource loads nothing; a registered one takes the load path."
    ),
    Requirement("VER-8", HOST, "A matching digest is never shown as a reason to trust."),
    # Security
    Requirement(
        "SEC-1",
        HOST,
        "A server's text is marked as untrusted, with its origin, in a fence that it cannot close.",
    ),
    Requirement("SEC-2", HOST, "A skill runs no code until its user has approved that."),
    Requirement(
        "SEC-3", HOST, "A skill reads from its own server; others need a yes each time; local files never."
    ),
    Requirement("SEC-4", HOST, "A server's skill widens no permission that its user has not granted."),
    Requirement("SEC-5", HOST, "Each skill is approved individually, a nested one always by name."),
    Requirement("SEC-6", HOST, "An approval covers one set of files and digests, and no other."),
    Requirement("SEC-7", HOST, "Users see where a skill comes from, and what it says, before it loads."),
    Requirement(
        "SEC-8", HOST, "The cache is private, complete, hashed at each use, and removed with its server."
    ),
    Requirement(
        "SEC-9", HOST, "Every amount is limited before it is in memory, and a bad server affects only itself."
    ),
    Requirement("SEC-10", HOST, "Directory children outside the skill or its origin are rejected."),
    Requirement(
        "SEC-11", HOST, "Hidden and control characters are removed before a prompt, a terminal or a page."
    ),
    Requirement(
        "SEC-12", HOST, "Skill text arrives as a tool's result, with less authority than anything else."
    ),
)
