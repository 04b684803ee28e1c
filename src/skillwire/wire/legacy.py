"""Older dialects: the resource `skill://index.json`, manifests, scans of listings, and the XML of a prompt.

The index dialects (D4, D3, D2) are distinguished entry by entry: frontmatter as an object is D4, a digest is
D3, neither is D2. Only D3 with `file-digests` lists a skill's files with digests; otherwise the entry has no
list of files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, cast
from urllib.parse import quote

from skillwire.documents import DocumentError, JsonObject, JsonValue, is_list, is_object, read_json
from skillwire.errors import FormatError, Issue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    SCHEME,
    SKILL_FILE,
    Dialect,
    Digest,
    DraftDetails,
    SkillEntry,
    SkillResource,
    SkillUri,
    child_uri,
    is_size,
    parse_digest,
    parse_uri,
    path_below,
    shown_uri,
    skill_name_in,
    skill_root,
)
from skillwire.text import clean_line, escape_xml, shown
from skillwire.trust import manifest_issues

_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_.]*)\}")
_MOST_ARGUMENTS: Final = 8
_MOST_CHARS: Final = 2048
_MOST_VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class SkillTemplate:
    """A template with its description."""

    template: str
    """A URI with arguments in braces, such as `skill://docs/{product}/SKILL.md`; `{+path}` stands for
    several segments."""
    description: str
    arguments: tuple[str, ...]
    """The names of the arguments, in the order of the URI."""

    def expand(self, values: Mapping[str, str]) -> SkillUri:
        """The URI of the skill for these values, or a `FormatError` for missing, unknown or invalid ones."""
        missing = [name for name in self.arguments if not values.get(name)]
        unknown = [name for name in values if name not in self.arguments]
        if missing or unknown:
            wrong = f"needs {', '.join(missing)}" if missing else f"has no argument {shown(unknown[0])}"
            raise _bad_template(f"{shown(self.template)} {wrong}", f"give {', '.join(self.arguments)}")

        def fill(match: re.Match[str]) -> str:
            value = values[match[2]]
            return (
                "/".join(quote(part, safe="") for part in value.split("/"))
                if match[1]
                else quote(value, safe="")
            )

        return parse_uri(_EXPRESSION.sub(fill, self.template))


def parse_template(template: object, description: object) -> SkillTemplate:
    """A template of an index, or a `FormatError`."""
    if not isinstance(template, str) or len(template) > _MOST_CHARS:
        raise _bad_template("it has no url", "tell the server's operator")
    arguments = [match[2] for match in _EXPRESSION.finditer(template)]
    rest = _EXPRESSION.sub("", template)
    if not arguments or "{" in rest or "}" in rest or len(arguments) > _MOST_ARGUMENTS:
        raise _bad_template(
            f"its template {shown(template)!r} cannot be filled in",
            "write skill://PATH/{argument}/SKILL.md with each argument in braces",
        )
    if not template.endswith(f"/{SKILL_FILE}"):
        raise _bad_template(f"its template {shown(template)!r} does not end in /{SKILL_FILE}", "end it so")
    if len(set(arguments)) != len(arguments):
        raise _bad_template(f"its template {shown(template)!r} has an argument twice", "name each once")
    made = SkillTemplate(template, description if isinstance(description, str) else "", tuple(arguments))
    made.expand(dict.fromkeys(arguments, "x"))  # A template that never gives a valid URI is refused here.
    return made


def completed_values(answer: object) -> tuple[str, ...]:
    """The values in a response to `completion/complete`; values that are not text are skipped."""
    completion = answer.get("completion") if is_object(answer) else None
    values = completion.get("values") if is_object(completion) else None
    return (
        tuple(value for value in values if isinstance(value, str))[:_MOST_VALUES] if is_list(values) else ()
    )


def _bad_template(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="template", message=message, fix=fix)


LEGACY_NAMES = frozenset({"index.json", "_manifest", "prompt-xml"})
"""Last segments of URIs of resources that describe skills."""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """The relevant fields of a resource in `resources/list`."""

    uri: str
    description: str
    name: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class LegacyListing:
    """Entries, and what could not be used and why. `spellings` are URIs as the server writes them."""

    entries: tuple[SkillEntry, ...] = ()
    issues: tuple[Issue, ...] = ()
    spellings: dict[SkillUri, str] = field(default_factory=dict[SkillUri, str])
    templates: tuple[SkillTemplate, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    """The resources of `resources/list`, if it was requested, including supporting files of skills."""
    has_index: bool = False


def skill_md_uri(text: str) -> SkillUri:
    """The canonical `SKILL.md` URI of a skill, whatever its server calls it.

    `skill://demo`, `skill://demo/` and `skill://demo/SKILL.md` are the same skill. Requests to the server use
    its own spelling.
    """
    uri = parse_uri(text.rstrip("/"))
    return uri if uri.endswith(f"/{SKILL_FILE}") else child_uri(uri, SKILL_FILE)


def is_legacy_resource(text: str) -> bool:
    """Whether a resource describes skills rather than being one."""
    return text.rstrip("/").rpartition("/")[2] in LEGACY_NAMES


def left_out(place: str, message: str, fix: str) -> Issue:
    """An entry that cannot be used, in one line."""
    return Issue(rule="entry-left-out", message=message, fix=fix, file=place)


def reason(error: FormatError) -> str:
    return error.issues[0].message


INDEX_URI: Final = "skill://index.json"
FILE_DIGESTS: Final = "io.modelcontextprotocol.skills/file-digests"
_SKILL_TYPE: Final = "skill-md"
_NAMED: Final = frozenset({"name", "description"})


def parse_index(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> LegacyListing:
    """The skills of an index, or a `FormatError` if it is not one. A bad entry does not affect the others."""
    try:
        index = read_json(data, what=INDEX_URI, limits=limits)
    except DocumentError as error:
        raise _no_index(str(error)) from None
    items = cast("Mapping[str, object]", index).get("skills") if isinstance(index, dict) else None
    if not is_list(items):
        raise _no_index("it has no list of skills")
    entries: dict[SkillUri, SkillEntry] = {}
    issues: list[Issue] = []
    spellings: dict[SkillUri, str] = {}
    templates: dict[str, SkillTemplate] = {}
    for number, item in enumerate(items):
        place = f"skills[{number}]"
        if number >= limits.entries_per_server:
            more = len(items) - number
            issues.append(
                left_out(place, f"{more:,} more entries were passed over", "ask for a shorter index")
            )
            break
        try:
            if is_object(item) and item.get("type") == "mcp-resource-template":
                template = parse_template(item.get("url"), item.get("description"))
                templates[template.template] = template
                continue
            entry = _entry(item, place)
        except FormatError as error:
            issues.append(left_out(place, reason(error), error.issues[0].fix))
            continue
        if entries.setdefault(entry.uri, entry) is not entry:
            issues.append(left_out(place, f"{shown_uri(entry.uri)} is listed twice", "the first one is used"))
        elif entry.draft is not None and entry.draft.spelling != entry.uri:
            spellings[entry.uri] = entry.draft.spelling
    return LegacyListing(tuple(entries.values()), tuple(issues), spellings, tuple(templates.values()))


def _entry(item: object, place: str) -> SkillEntry:
    if not is_object(item):
        raise _bad_index(f"{place} is not an object", "tell the server's operator")
    kind = item.get("type", _SKILL_TYPE)
    url = item.get("url")
    match kind:
        case "skill-md":
            pass
        case "archive":
            raise _bad_index("it comes only as an archive, which is not loaded", "ask for it as single files")
        case _:
            raise _bad_index(f"its type {shown(str(kind))!r} is not known", "nothing to do: it was skipped")
    if not isinstance(url, str):
        if item.get("archives"):
            raise _bad_index("it comes only as an archive, which is not loaded", "ask for it as single files")
        raise _bad_index("it has no url", "tell the server's operator")
    uri = skill_md_uri(url)
    name = item.get("name")
    if isinstance(name, str) and not url.endswith(f"/{SKILL_FILE}") and name != skill_name_in(uri):
        # Read as a directory, it could never be loaded: a skill has the name of its directory (FMT-3).
        raise _bad_index(
            f"its url {shown(url)!r} is neither a SKILL.md nor the directory of a skill called {shown(name)}",
            f"end it with /{name}/{SKILL_FILE}",
        )
    digest = _read_digest(item.get("digest"))
    frontmatter = item.get("frontmatter")
    if is_object(frontmatter):
        dialect, fields, carried = Dialect.INDEX_WITH_FRONTMATTER, cast("JsonObject", frontmatter), None
    else:
        dialect = Dialect.INDEX if digest is None else Dialect.INDEX_WITH_DIGESTS
        fields = cast(
            "JsonObject", {key: item[key] for key in sorted(_NAMED) if isinstance(item.get(key), str)}
        )
        carried = frozenset(fields)
        # Missing fields are not compared; a missing name is the directory's.
        fields.setdefault("name", skill_name_in(uri))
    files = _files(uri, digest, item.get("_meta"))
    draft = DraftDetails(
        dialect=dialect,
        carried=carried,
        digests=() if files or digest is None else ((uri, digest),),
        spelling=url,
    )
    return SkillEntry(uri, fields, files or DYNAMIC, _meta(item.get("_meta")), draft)


def _files(uri: SkillUri, digest: Digest | None, meta: object) -> tuple[SkillResource, ...]:
    """Every file with its digest, if the entry has them (D3); otherwise empty."""
    listed = meta.get(FILE_DIGESTS) if is_object(meta) else None
    if not is_list(listed):
        return ()
    root = skill_root(uri)
    files: list[tuple[SkillUri, Digest]] = []
    for item in listed:
        path = item.get("path") if is_object(item) else None
        found = _read_digest(item.get("digest")) if is_object(item) else None
        if not isinstance(path, str) or found is None:
            raise _bad_index("its list of file digests is not one", "tell the server's operator")
        file = root
        for segment in path.split("/"):
            file = child_uri(file, segment)
        files.append((file, found))
    digests = dict(files)
    if uri not in digests:
        if digest is None:
            return ()  # Incomplete, so nothing can be bound to it.
        files.append((uri, digest))
    elif digest not in (None, digests[uri]):
        raise _bad_index("it names two digests for its SKILL.md", "tell the server's operator")
    if issues := manifest_issues((file for file, _ in files), uri):
        raise FormatError(issues)
    return tuple(SkillResource(file, found, NO_SIZE) for file, found in sorted(files))


def _read_digest(value: object) -> Digest | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _bad_index("its digest is not a string", "tell the server's operator")
    return parse_digest(value)


def _meta(value: object) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", dict(value)) if is_object(value) else {}


def _bad_index(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="index-entry", message=message, fix=fix)


def _no_index(message: str) -> FormatError:
    return FormatError.of(
        rule="index", message=f"{INDEX_URI} is not an index: {message}", fix="tell its operator"
    )


SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
"""What readers of D2 and D3 look for in `$schema`."""
INDEX_DIALECTS: Final = (Dialect.INDEX, Dialect.INDEX_WITH_DIGESTS, Dialect.INDEX_WITH_FRONTMATTER)


def write_index(entries: Iterable[SkillEntry], dialect: Dialect) -> bytes:
    """The index of these skills. The same skills give the same bytes."""
    if dialect not in INDEX_DIALECTS:
        raise ValueError(f"{dialect} has no index")
    index: JsonObject = {}
    if dialect is Dialect.INDEX_WITH_FRONTMATTER:
        index["skills"] = [_with_frontmatter(entry) for entry in entries]
    else:
        has_digests = dialect is Dialect.INDEX_WITH_DIGESTS
        index["$schema"] = SCHEMA
        index["skills"] = [_with_name(entry, has_digests=has_digests) for entry in entries]
    return json.dumps(index, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _with_name(entry: SkillEntry, *, has_digests: bool) -> JsonObject:
    item: JsonObject = {
        "name": entry.name,
        "type": "skill-md",
        "description": entry.description,
        "url": entry.uri,
    }
    if has_digests and entry.resources is not DYNAMIC:
        item |= _written_digest(entry)
        root = skill_root(entry.uri)
        files: list[JsonValue] = [
            {"path": "/".join(path_below(file.uri, root)), "digest": file.digest} for file in entry.resources
        ]
        item["_meta"] = {FILE_DIGESTS: files}
    return item


def _with_frontmatter(entry: SkillEntry) -> JsonObject:
    return {"url": entry.uri, **_written_digest(entry), "frontmatter": dict(entry.frontmatter)}


def _written_digest(entry: SkillEntry) -> JsonObject:
    """The digest of `SKILL.md`, if there is one."""
    files = () if entry.resources is DYNAMIC else entry.resources
    digests = [file.digest for file in files if file.uri == entry.uri]
    return {"digest": digests[0]} if digests else {}


def write_manifest(entry: SkillEntry) -> bytes:
    """The manifest of a skill whose files are listed."""
    if entry.resources is DYNAMIC:
        raise ValueError(f"{entry.uri} lists no files")
    root = skill_root(entry.uri)
    files: list[JsonValue] = [
        {"path": "/".join(path_below(file.uri, root)), "size": file.size, "hash": file.digest}
        for file in entry.resources
    ]
    manifest: JsonObject = {"skill": skill_name_in(entry.uri), "files": files}
    return json.dumps(manifest, ensure_ascii=False, indent=2).encode("utf-8")


def bind_to_manifest(entry: SkillEntry, data: bytes) -> SkillEntry:
    """The entry with the files of its manifest, or a `FormatError`.

    A manifest without `SKILL.md` is incomplete, so nothing can be bound to it.
    """
    try:
        manifest = read_json(data, what="a manifest")
    except DocumentError:
        raise _refused("its manifest is not JSON") from None
    listed = manifest.get("files") if is_object(manifest) else None
    if not is_list(listed):
        raise _refused("its manifest has no list of files")
    root = skill_root(entry.uri)
    files = sorted((_file(root, item) for item in listed), key=lambda file: file.uri)
    if all(file.uri != entry.uri for file in files):
        return replace(entry, resources=DYNAMIC)
    if issues := manifest_issues((file.uri for file in files), entry.uri):
        raise _refused(f"in its manifest, {issues[0].message}")
    return replace(entry, resources=tuple(files))


def _file(root: SkillUri, item: object) -> SkillResource:
    path = item.get("path") if is_object(item) else None
    size = item.get("size") if is_object(item) else None
    digest = item.get("hash") if is_object(item) else None
    if not isinstance(path, str) or not isinstance(digest, str):
        raise _refused("its manifest has a file without path or hash")
    if not is_size(size):
        raise _refused(f"its manifest gives {shown(path)} no size")
    uri = root
    for segment in path.split("/"):
        uri = child_uri(uri, segment)
    return SkillResource(uri, parse_digest(digest), size)


def _refused(message: str) -> FormatError:
    return FormatError.of(rule="manifest", message=message, fix="tell the server's operator")


MANIFEST: Final = "_manifest"
_PREFIX: Final = f"{SCHEME}://"


@dataclass(frozen=True, slots=True)
class ResourcePage:
    resources: tuple[ListedResource, ...]
    next_cursor: str | None


def resource_page(answer: object) -> ResourcePage:
    """A page of `resources/list`. Resources without a URI are skipped."""
    items = answer.get("resources") if is_object(answer) else None
    if not is_object(answer) or not is_list(items):
        raise FormatError.of(
            rule="answer", message="the answer has no list of resources", fix="tell the server's operator"
        )
    found: list[ListedResource] = []
    for item in items:
        uri = item.get("uri") if is_object(item) else None
        if is_object(item) and isinstance(uri, str):
            name, media = _string(item.get("name")), _string(item.get("mimeType"))
            found.append(ListedResource(uri, _string(item.get("description")), name, media))
    cursor = answer.get("nextCursor")
    return ResourcePage(tuple(found), cursor if isinstance(cursor, str) and cursor else None)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def with_manifests(resources: Sequence[ListedResource]) -> dict[str, ListedResource]:
    """The `SKILL.md` resources that have a manifest, by the URI of the manifest (D1)."""
    uris = {resource.uri for resource in resources}
    found: dict[str, ListedResource] = {}
    for resource in resources:
        root, slash, name = resource.uri.rpartition("/")
        manifest = f"{root}/{MANIFEST}"
        if slash and name == SKILL_FILE and resource.uri.startswith(_PREFIX) and manifest in uris:
            found[manifest] = resource
    return found


def bare_resources(resources: Sequence[ListedResource]) -> list[ListedResource]:
    """Every resource whose URI looks like that of a skill or of its files."""
    return [one for one in resources if one.uri.startswith(_PREFIX) and not is_legacy_resource(one.uri)]


def bare_skills(resources: Sequence[ListedResource]) -> LegacyListing:
    """Every resource whose URI looks like a skill's (D0). None of them is confirmed to be a skill."""
    entries: dict[SkillUri, SkillEntry] = {}
    issues: list[Issue] = []
    spellings: dict[SkillUri, str] = {}
    # A proper SKILL.md comes first, so that `skill://demo` does not replace it.
    listed = bare_resources(resources)
    for resource in sorted(listed, key=lambda resource: not resource.uri.endswith(f"/{SKILL_FILE}")):
        try:
            entry = scanned_entry(resource, Dialect.BARE_SCAN)
        except FormatError as error:
            issues.append(left_out(shown(resource.uri), reason(error), error.issues[0].fix))
            continue
        if entry.uri not in entries:
            entries[entry.uri] = entry
            if resource.uri != entry.uri:
                spellings[entry.uri] = resource.uri
    return LegacyListing(tuple(entries.values()), tuple(issues), spellings)


def scanned_entry(resource: ListedResource, dialect: Dialect) -> SkillEntry:
    """An entry for a resource without frontmatter, named after its directory."""
    uri = skill_md_uri(resource.uri)
    frontmatter: JsonObject = {"name": skill_name_in(uri), "description": resource.description}
    draft = DraftDetails(
        dialect=dialect,
        carried=frozenset(),
        confirmed=dialect is not Dialect.BARE_SCAN,
        spelling=resource.uri,
    )
    return SkillEntry(uri, frontmatter, DYNAMIC, {}, draft)


PROMPT_XML_URI: Final = "skill://prompt-xml"


def write_prompt_xml(entries: Iterable[SkillEntry], *, limit: int = 100_000) -> bytes:
    """The skills as `<available_skills>`, at most `limit` characters; the rest are counted in a comment.

    Hidden characters and those not allowed in XML are removed (SEC-11).
    """
    skills: list[str] = []
    left_out = 0
    for entry in entries:
        skill = _skill(entry.name, entry.description, entry.uri)
        limit -= len(skill) + 1
        if limit >= 0 and not left_out:
            skills.append(skill)
        else:
            left_out += 1
    if left_out:
        skills.append(f"<!-- {left_out} more skills are not shown -->")
    return "\n".join(["<available_skills>", *skills, "</available_skills>", ""]).encode("utf-8")


@lru_cache(maxsize=16_384)
def _skill(name: str, description: str, uri: str) -> str:
    """One skill. Cached, because cleaning is slow and most skills do not change."""
    return "\n".join(
        [
            "<skill>",
            f"<name>{_escaped(name)}</name>",
            f"<description>{_escaped(description)}</description>",
            f"<location>{_escaped(uri)}</location>",
            "</skill>",
        ]
    )


def _escaped(text: str) -> str:
    return escape_xml(clean_line(text).text)
