"""Rules about skills/list, skills/get, resources/directory/read and resources/read."""

from __future__ import annotations

from typing import Final

from skillwire.conformance.rules.protocol import Clause, advice, extension, must, protocol, should


def _getting(says: str) -> Clause:
    return extension(says, "getting-a-skill")


_PAGES: Final = extension(
    "skills/list takes a cursor and returns nextCursor like the list methods of the base protocol.",
    "listing-skills",
)
_CURSORS: Final = protocol(
    "A missing nextCursor ends the list; cursors are strings, and an invalid one gives -32602.",
    "server/utilities/pagination",
)
_LIST_CACHE: Final = extension(
    "ttlMs and cacheScope are required on the result of skills/list.", "listing-skills"
)
_STATELESS: Final = _getting(
    "A URI alone is enough to read a skill, and skills/get answers for that same URI."
)
_COMPLETE: Final = 'put "resultType": "complete" into the result'
_TTL: Final = "add ttlMs, a whole number of milliseconds, 0 or more"
_LAST_PAGE: Final = "leave nextCursor out on the last page"

_LIST_RULES: Final = (
    must(
        "LST-1/shape",
        "the result of skills/list has an array of skills",
        "send an array, an empty one if there are none",
        _PAGES,
    ),
    must("LST-1/cursor-type", "nextCursor is a string or absent", _LAST_PAGE, _CURSORS),
    should(
        "LST-1/cursor-empty",
        "the last page has no nextCursor",
        f"{_LAST_PAGE} instead of sending an empty one",
        _CURSORS,
    ),
    must(
        "LST-1/endless",
        "the listing has a last page",
        f"{_LAST_PAGE}, and never return the same cursor twice",
        _CURSORS,
    ),
    must(
        "LST-1/page",
        "a cursor that the server returned leads to the next page",
        "accept every cursor that you returned",
        _CURSORS,
    ),
    must(
        "LST-1/split",
        "an entry is complete on one page",
        "split pages between entries, never inside one",
        extension("An entry is atomic: the files of a skill are never split across pages.", "listing-skills"),
    ),
    must(
        "LST-1/duplicate",
        "each skill is listed once",
        "list each URI once, and start a page after the last entry of the page before",
        extension("Within a server a skill is identified by its URI.", "names"),
    ),
    should(
        "LST-1/order",
        "the same listing comes in the same order",
        "sort the listing, for example by URI",
        _PAGES,
    ),
    should(
        "LST-1/changing",
        "a listing stays the same while no skill changes",
        "build entries from the files alone; if files were changed meanwhile, run again",
        _PAGES,
    ),
    should(
        "LST-1/bad-cursor",
        "a cursor that the server never returned is refused with -32602",
        "check the cursor and answer with error -32602",
        _CURSORS,
    ),
    must(
        "LST-1/no-params",
        "on the 2025 revisions skills/list without params gives the first page",
        "treat absent params like an empty object",
        protocol("The params of a request are optional.", "basic", "requests"),
    ),
    must(
        "LST-2/result-type",
        'on 2026-07-28 the result of skills/list has resultType "complete"',
        _COMPLETE,
        extension("The result of skills/list has resultType complete.", "listing-skills"),
    ),
    must("LST-2/ttl", "on 2026-07-28 the result of skills/list has ttlMs", _TTL, _LIST_CACHE),
    must(
        "LST-2/cache-scope",
        "on 2026-07-28 the result of skills/list has cacheScope",
        "add cacheScope, public or private",
        _LIST_CACHE,
    ),
)

_EVERY: Final = _getting("skills/get answers for every skill that the server serves, listed or not.")
_ENTRY: Final = _getting("The entry of skills/get is identical in shape and meaning to that of skills/list.")
_REFUSE: Final = _getting("skills/get for a URI that does not identify a served skill gives -32602.")
_GET_CACHE: Final = _getting("ttlMs and cacheScope are required on the result of skills/get.")
_GET_RULES: Final = (
    must(
        "GET-1/served",
        "skills/get answers for every listed skill",
        "look skills up in the same place for list and get",
        _EVERY,
    ),
    must(
        "GET-1/unlisted",
        "skills/get answers for every skill that is served, listed or not",
        "give every skill an entry, whether or not it is listed",
        _EVERY,
    ),
    must(
        "GET-1/before-list",
        "skills/get answers with the same entry on a new connection, before skills/list is called",
        "build the index of skills when the server starts, not when skills/list is called",
        _STATELESS,
    ),
    must(
        "GET-1/shape",
        "the result of skills/get has the entry under skill",
        "send the entry as an object under skill",
        _ENTRY,
    ),
    must("GET-1/uri", "skills/get returns the entry of the requested URI", "compare the URI exactly", _ENTRY),
    must(
        "GET-1/equal",
        "skills/get and skills/list return the same entry",
        "build the entry in one place for both methods",
        _ENTRY,
    ),
    must(
        "GET-1/unknown",
        "skills/get for a URI that is not a skill is refused with -32602",
        "answer with error -32602",
        _REFUSE,
    ),
    must(
        "GET-1/neighbor",
        "skills/get for a URI that only resembles a skill's is refused with -32602",
        "compare whole URIs, case-sensitively, without normalizing slashes or decoding %2F",
        _REFUSE,
    ),
    must(
        "GET-1/no-skill",
        "skills/get for a supporting file or a directory is refused with -32602",
        "accept only the URI of a SKILL.md that is a skill",
        _REFUSE,
    ),
    must(
        "GET-1/no-uri",
        "skills/get without a usable uri is refused with -32602",
        "check the parameters before you use them",
        _REFUSE,
    ),
    should(
        "GET-1/message",
        "the error of skills/get has a message that describes the cause, and names no other skill",
        "say what is wrong, for example that no skill is served at the URI",
        extension(
            "Error messages should describe the cause; the text does not say that they name the URI.",
            "error-handling",
        ),
    ),
    must(
        "GET-2/result-type",
        'on 2026-07-28 the result of skills/get has resultType "complete"',
        _COMPLETE,
        _getting("The result of skills/get has resultType complete."),
    ),
    must("GET-2/ttl", "on 2026-07-28 the result of skills/get has ttlMs", _TTL, _GET_CACHE),
    must(
        "GET-2/cache-scope",
        "on 2026-07-28 the result of skills/get has cacheScope",
        "add cacheScope, public or private",
        _GET_CACHE,
    ),
    must(
        "GET-2/cursor",
        "the result of skills/get has no nextCursor",
        "leave nextCursor out",
        _getting("The result of skills/get has no pagination cursor."),
    ),
)

_CHILDREN: Final = extension(
    "The result has every direct child of the directory, files with their metadata, subdirectories as "
    "inode/directory, and is not recursive.",
    "reading-directories",
)
_LEVELS: Final = extension(
    "With directoryRead the method works for every directory in the skill namespaces served as files.",
    "reading-directories",
)
_NO_DIRECTORY: Final = extension(
    "A URI that does not exist or is not a directory gives -32602.", "reading-directories"
)
_DIRECTORY_RULES: Final = (
    must(
        "DIR-1/shape",
        "the result has an array of resources, each with a uri and a name",
        "send Resource objects, an empty array for an empty directory",
        _CHILDREN,
    ),
    must(
        "DIR-1/directory-type",
        "directories, and only directories, have mimeType inode/directory",
        "set mimeType by what the child is",
        _CHILDREN,
    ),
    must(
        "DIR-1/direct",
        "children are direct children of the requested directory",
        "list one level, with URIs below that of the directory and a slash",
        _CHILDREN,
    ),
    must("DIR-1/duplicate", "each child is listed once", "list each child once, over all pages", _CHILDREN),
    must(
        "DIR-1/complete",
        "every file and subdirectory of a skill is among the children of its directory",
        "build directories from the same files as the entry",
        _CHILDREN,
    ),
    should(
        "DIR-1/size",
        "a size in a directory is the size in the entry",
        "take both from the same place",
        _CHILDREN,
    ),
    must(
        "DIR-1/empty",
        "an empty directory gives an empty array",
        "answer with an empty array for a directory without children",
        extension("An empty directory gives an empty array.", "reading-directories"),
    ),
    must(
        "DIR-1/result-type",
        'on 2026-07-28 the result has resultType "complete"',
        _COMPLETE,
        extension("The result of resources/directory/read has resultType complete.", "reading-directories"),
    ),
    must("DIR-1/cursor-type", "nextCursor is a string or absent", _LAST_PAGE, _CURSORS),
    must(
        "DIR-1/endless",
        "the listing of a directory has a last page",
        f"{_LAST_PAGE}, and never return the same cursor twice",
        _CURSORS,
    ),
    must(
        "DIR-1/page",
        "a cursor that the server returned leads to the next page",
        "accept every cursor that you returned",
        _CURSORS,
    ),
    should(
        "DIR-1/bad-cursor",
        "a cursor that the server never returned is refused with -32602",
        "check the cursor and answer with error -32602",
        _CURSORS,
    ),
    must(
        "DIR-2/level",
        "every directory level of a skill can be read",
        "answer for each directory that has a file somewhere below it",
        _LEVELS,
    ),
    must(
        "DIR-2/before-list",
        "a directory can be read on a new connection, before skills/list is called",
        "build the directories when the server starts, not when skills/list is called",
        _LEVELS,
    ),
    should(
        "DIR-2/prefix",
        "the levels above a skill can be read as directories as well",
        "answer for each segment of the skill path",
        _LEVELS,
        debatable="the clause names skill roots and their subdirectories, not the levels above them",
    ),
    must(
        "DIR-2/loop", "directories are not nested without end", "follow no link that leads back up", _CHILDREN
    ),
    must(
        "DIR-3/no-uri",
        "resources/directory/read without a uri is refused with -32602",
        "check the parameters before you use them",
        _NO_DIRECTORY,
    ),
    must("DIR-3/unknown", "an unknown URI is refused with -32602", "answer with error -32602", _NO_DIRECTORY),
    must(
        "DIR-3/neighbor",
        "a URI that only resembles a directory's is refused with -32602",
        "compare whole path segments: a directory is followed by a slash, not by any character",
        _NO_DIRECTORY,
    ),
    must(
        "DIR-3/file",
        "a file is not a directory and is refused with -32602",
        "answer with error -32602",
        _NO_DIRECTORY,
    ),
)

_NO_FILE: Final = extension(
    "resources/read of a skill file that the server does not serve gives -32602.", "error-handling"
)
_CONTENTS: Final = protocol(
    "The result has contents, one or more, each with a uri and either text or a base64 blob.",
    "server/resources",
    "resource-contents",
)
_READ_RULES: Final = (
    must(
        "RD-1/listed",
        "every file of an entry can be read",
        "serve each listed file, under the URI that the entry has",
        extension("Files are read with the base protocol's resources/read.", "reading-skill-content"),
    ),
    must(
        "RD-1/shown",
        "a SKILL.md that a directory shows, or that the instructions name, can be read",
        "serve the files of skills that are not listed as well",
        extension("Files are read with the base protocol's resources/read.", "reading-skill-content"),
    ),
    must(
        "RD-1/before-list",
        "a file can be read on a new connection, before skills/list is called",
        "build the index of files when the server starts, not when skills/list is called",
        _STATELESS,
    ),
    must(
        "RD-1/shape",
        "the result of resources/read has contents, each with either text or blob",
        "send contents with an object that has uri and either text or blob",
        _CONTENTS,
    ),
    must("RD-1/uri", "a content has the requested URI", "repeat the URI of the request", _CONTENTS),
    must(
        "RD-1/unknown", "reading an unknown URI is refused with -32602", "answer with error -32602", _NO_FILE
    ),
    must(
        "RD-1/neighbor",
        "reading a URI that only resembles a file's is refused with -32602",
        "compare whole URIs, case-sensitively, without normalizing slashes or decoding %2F",
        _NO_FILE,
    ),
    advice(
        "RD-1/directory",
        "reading a directory as a file is refused with -32602, or gives files of that directory",
        "answer with error -32602, and say that it is a directory",
        _NO_FILE,
    ),
    should(
        "RD-1/error-data",
        "the URI in the data of an error is the requested one",
        "put the requested URI into error.data.uri, or leave data out",
        Clause(
            "An error for a resource that does not exist carries the requested URI in its data.",
            "https://modelcontextprotocol.io/seps/2164-resource-not-found-error",
        ),
    ),
    should(
        "RD-1/mime",
        "a file has the same mimeType wherever it is described",
        "take the type from one place",
        extension("Files have the mimeType that is appropriate to their content.", "resource-metadata"),
    ),
    must(
        "RD-2/lossy",
        "text is sent only if it keeps every byte",
        "send text for valid UTF-8 with its BOM and line endings unchanged, otherwise blob",
        extension(
            "digest and size are those of a file's raw bytes, so a read must return exactly these bytes.",
            "integrity-and-verification",
        ),
    ),
    must(
        "RD-2/base64",
        "blob is base64",
        "encode the raw bytes by RFC 4648, with padding and without line breaks",
        _CONTENTS,
    ),
    advice(
        "RD-2/skill-md-blob",
        "SKILL.md is sent as text",
        "send UTF-8 files as text: not every host decodes blobs",
        _CONTENTS,
    ),
    must(
        "RD-2/changing",
        "two reads of a file give the same bytes as long as its entry is the same",
        'serve what was hashed, or list the skill as "dynamic"',
        extension("Content without stable digests is listed as dynamic.", "resources"),
    ),
)

METHOD_RULES: Final = (*_LIST_RULES, *_GET_RULES, *_DIRECTORY_RULES, *_READ_RULES)
