"""Rules about entries, the format of a skill, its URIs and the metadata of its resources."""

from __future__ import annotations

from typing import Final

from skillwire.conformance.rules.protocol import FORMAT, RFC3986, Clause, advice, extension, must, should

_ENTRY: Final = extension("An entry has uri, frontmatter and resources.", "skill-entries")
_REQUIRED: Final = extension(
    'resources is required: an array of all files, or the string "dynamic".', "resources"
)
_COMPLETE: Final = extension(
    "The array lists every file of the skill exactly once, SKILL.md included.", "resources"
)
_DIGEST: Final = extension(
    "A digest is sha256: and 64 lowercase hexadecimal digits, of the raw bytes.", "integrity-and-verification"
)
_SIZE: Final = extension("Each file has a size, the length in bytes of what the digest covers.", "resources")
_LIMITS: Final = extension("Servers should not serve skills of more than 512 files or 16 MiB.", "limits")
_META: Final = extension(
    "Annotations go into _meta under the server's own reverse-domain prefix, not the extension's.",
    "security-considerations",
)

_ENTRY_RULES: Final = (
    must("ENT-1/shape", "an entry is an object", "send uri, frontmatter and resources", _ENTRY),
    must("ENT-1/uri", "an entry has the URI of its SKILL.md as a string", "send the URI under uri", _ENTRY),
    must(
        "ENT-1/frontmatter",
        "an entry has the frontmatter as an object",
        "send the YAML rendered as JSON",
        _ENTRY,
    ),
    must(
        "ENT-1/verbatim",
        "the frontmatter of the entry is that of the file, every field, by type and value",
        "render the YAML of the file with the YAML 1.2 core schema, and leave nothing out",
        extension(
            "The frontmatter of an entry is identical in content to that of the SKILL.md, every field "
            "included.",
            "frontmatter",
        ),
    ),
    must(
        "ENT-2/resources",
        'resources is an array of files or the string "dynamic"',
        "list every file",
        _REQUIRED,
    ),
    must(
        "ENT-2/item",
        "each item of resources is an object with a uri",
        "send uri, digest and size for each file",
        _REQUIRED,
    ),
    must(
        "ENT-2/skill-md",
        "resources includes the SKILL.md itself",
        "list every file, SKILL.md included",
        _COMPLETE,
    ),
    must("ENT-2/twice", "each file is in resources once", "list each file once", _COMPLETE),
    must(
        "ENT-2/outside",
        "each file of resources is in the skill's directory",
        "list only files of this skill",
        extension("Each URI is the SKILL.md or a file within the skill's directory.", "resources"),
    ),
    must(
        "ENT-2/complete",
        "resources has every file that the skill's directories have",
        "list every file of the directory, or do not serve it at all",
        _COMPLETE,
    ),
    must(
        "ENT-3/digest-format",
        "a digest is sha256: and 64 lowercase hexadecimal digits",
        "write the SHA-256 of the raw bytes in this form",
        _DIGEST,
    ),
    must(
        "ENT-3/size-type",
        "a size is a whole number, 0 or more",
        "send the number of bytes of the file",
        _SIZE,
    ),
    must(
        "ENT-3/digest",
        "the digest in the entry is that of the bytes that are served",
        "hash the raw bytes that resources/read returns",
        _DIGEST,
    ),
    must(
        "ENT-3/size",
        "the size in the entry is the number of bytes that are served",
        "count the raw bytes, not characters",
        _SIZE,
    ),
    should(
        "ENT-5/same-name",
        "no two skills of a listing have the same name",
        "rename one of them; hosts then need not distinguish them by path",
        extension("Names in a listing should be unique.", "names"),
    ),
    should(
        "ENT-6/files",
        "a skill has at most 512 files",
        "leave out what is not needed: hosts may decline the skill",
        _LIMITS,
    ),
    should(
        "ENT-6/bytes",
        "a skill has at most 16 MiB",
        "leave out large files: hosts may decline the skill",
        _LIMITS,
    ),
    should(
        "ENT-7/reserved",
        "metadata has no key under io.modelcontextprotocol/",
        "use a prefix of your own",
        extension("Keys of metadata under io.modelcontextprotocol/ are reserved.", "frontmatter"),
    ),
    must("ENT-8/meta", "_meta of an entry is an object", "send an object, or leave it out", _META),
    should(
        "ENT-8/prefix",
        "keys of an entry's _meta have a prefix, and not a reserved one",
        "use a reverse-DNS prefix of your own, such as com.example/key",
        _META,
    ),
)

_SKILL: Final = extension(
    "A skill has a SKILL.md at its root that begins with YAML frontmatter with name and description.",
    "skill-format",
)
_METADATA: Final = extension(
    "A SKILL.md resource has mimeType text/markdown, and name and description from the frontmatter.",
    "resource-metadata",
)
_URI: Final = Clause(
    "A URI consists of a scheme, an authority and path segments of allowed or percent-encoded characters.",
    RFC3986,
    "section-3.3",
)
_FORMAT_RULES: Final = (
    must(
        "FMT-1/skill-md",
        "the URI of a skill ends in /SKILL.md",
        "identify a skill by the URI of its SKILL.md",
        _SKILL,
    ),
    must(
        "FMT-1/frontmatter",
        "SKILL.md starts with frontmatter that can be parsed",
        "start the file with ---, name: and description: lines, and --- again",
        _SKILL,
    ),
    must(
        "FMT-2/name",
        "a name has 1 to 64 lowercase letters, digits and single hyphens",
        "rename the skill and its directory",
        Clause(
            "A name has 1 to 64 lowercase letters, digits and hyphens, and is the name of the directory.",
            FORMAT,
            "name-field",
        ),
    ),
    must(
        "FMT-2/description",
        "a description has 1 to 1024 characters",
        "say what the skill does and when to use it",
        Clause("A description has 1 to 1024 characters.", FORMAT, "description-field"),
    ),
    must(
        "FMT-2/field",
        "optional fields have the types of the format",
        "correct the field or leave it out",
        Clause("The optional fields have the types of the format.", FORMAT, "frontmatter"),
    ),
    must(
        "FMT-3/name",
        "the last segment of the skill path is the name in the frontmatter",
        "make the directory and the name equal",
        extension(
            "The last segment of the skill path equals the name in the frontmatter.", "resource-mapping"
        ),
    ),
    should(
        "FMT-3/reg-name",
        "the first segment of the skill path is a valid reg-name",
        "use letters, digits and hyphens, and percent-encode the rest",
        extension("The first segment should be a valid reg-name of RFC 3986.", "resource-mapping"),
    ),
    advice(
        "FMT-3/scheme",
        "skills are served under skill://",
        "use the skill:// scheme",
        extension("Servers should use the skill:// scheme, and may use another.", "resource-mapping"),
    ),
    must(
        "FMT-4/slash",
        "the URI of a directory has no trailing slash",
        "remove the slash",
        extension("Directory URIs are written without a trailing slash.", "directory-resources"),
    ),
    should(
        "FMT-7/mime",
        "a SKILL.md resource has mimeType text/markdown",
        "set mimeType to text/markdown wherever the resource is described",
        _METADATA,
    ),
    should(
        "FMT-7/name",
        "a SKILL.md resource has its name from the frontmatter",
        "set name from the frontmatter",
        _METADATA,
    ),
    should(
        "FMT-7/description",
        "a SKILL.md resource has its description from the frontmatter",
        "set description from the frontmatter",
        _METADATA,
    ),
    should(
        "FMT-7/meta",
        "keys of _meta have a prefix, and those under io.modelcontextprotocol.skills/ repeat the frontmatter",
        "copy the field unchanged, and use a prefix of your own for everything else",
        extension(
            "Keys of _meta on skill resources have the prefix io.modelcontextprotocol.skills/.",
            "resource-metadata",
        ),
    ),
    should(
        "FMT-8/nested",
        "a skill inside a skill has an entry of its own",
        "answer skills/get for the nested SKILL.md",
        extension(
            "A nested skill is published like any other, by an entry of its own or by explicit reference.",
            "nested-skills",
        ),
        debatable="a SKILL.md inside a skill that is never published may be read as a supporting file",
    ),
    must(
        "FMT-8/enclosing",
        "the files of a nested skill are in the enclosing entry as well",
        "list every file below the directory, nested skills included",
        extension("The enclosing skill lists the files of nested skills as well.", "resources"),
    ),
    must(
        "FMT-9/uri",
        "URIs are well formed, with no empty, . or .. segment and no encoded slash, backslash or NUL",
        "use plain path segments",
        _URI,
    ),
    must(
        "FMT-9/encoding",
        "URIs are percent-encoded",
        "encode every character that RFC 3986 does not allow, as UTF-8",
        _URI,
    ),
    must(
        "FMT-9/climb",
        "a URI that leaves its first segment by .., plain or encoded, is refused",
        "refuse .. segments before you build a path from them",
        Clause("A .. segment cannot leave the root of a path.", RFC3986, "section-5.2.4"),
    ),
)

ENTRY_RULES: Final = (*_ENTRY_RULES, *_FORMAT_RULES)


_LINT: Final = {
    "allowed-tools-blank": "a field has a value or is left out",
    "allowed-tools-list": "allowed-tools is one string",
    "body-empty": "instructions follow the frontmatter",
    "body-lines": "the body has at most 500 lines",
    "body-tokens": "the body has at most about 5,000 tokens",
    "compatibility-blank": "a field has a value or is left out",
    "compatibility-length": "compatibility has 1 to 500 characters",
    "description-long": "the description has fewer than 700 characters",
    "description-short": "the description has enough detail to choose the skill by",
    "description-when": "the description says when to use the skill",
    "license-blank": "a field has a value or is left out",
    "metadata-blank": "a field has a value or is left out",
    "metadata-value-type": "values of metadata are strings",
    "reference-missing": "a path in the text is a file of the skill",
    "reference-outside": "a path in the text stays inside the skill",
    "field-misspelled": "fields are spelled as hosts read them",
    "line-endings": "line endings are LF",
    "merge-conflict": "the file has no merge conflict markers",
    "yaml-last-block": "the last field is not a block of text, because parsers differ about its end",
    "template": "nothing is left of the template of a new skill",
    "unknown-field": "the frontmatter has the fields of the format",
    "other": "`skillwire lint` reports nothing",
}
_FORMAT: Final = Clause("The format recommends how to write fields, body and references.", FORMAT)
_UNTRUSTED: Final = extension(
    "Skill content is untrusted input and can carry prompt injections.", "security-considerations"
)
_LOOK: Final = "look at this place: it does not prove bad intent, but a person cannot see what a model reads"

_SIGNED: Final = Clause(
    "A signature lists every file of the skill with its digest.", "https://github.com/ossf/model-signing-spec"
)

_DEMANDED: Final = Clause(
    "Some consumers of skills accept less than the extension allows; the profile says who, when and where.",
    "https://github.com/MCPJam/inspector",
)
_DEMANDS: Final = {
    "skills": ("a server has at most as many skills as the profile's consumer takes", "serve fewer skills"),
    "files": ("a skill has at most as many supporting files as it takes", "merge or leave out files"),
    "skill-bytes": ("a skill is no larger than it takes", "leave out large files"),
    "skill-md-bytes": ("a SKILL.md is no larger than it takes", "move detail into supporting files"),
    "file-bytes": ("a file is no larger than it takes", "split the file, or leave it out"),
    "server-bytes": ("all skills together are no larger than it takes", "serve fewer or smaller files"),
}

CONTENT_RULES: Final = (
    *(should(f"PROFILE/{name}", expected, fix, _DEMANDED) for name, (expected, fix) in _DEMANDS.items()),
    advice(
        "SIG/invalid",
        "skill.oms.sig is an OpenSSF Model Signing bundle over a set of files",
        "sign the skill again with `skillwire sign`, or leave the file out",
        _SIGNED,
    ),
    advice(
        "SIG/differs",
        "the signature lists the files and digests that the entry lists",
        "sign the skill again after every change: hosts that require its publisher refuse it",
        _SIGNED,
    ),
    *(
        advice(
            f"LINT/{name}",
            expected,
            "fix what the finding names; `skillwire lint` reports it for the files as well",
            _FORMAT,
        )
        for name, expected in _LINT.items()
    ),
    advice("TEXT/tags", "text has no Unicode tag characters", _LOOK, _UNTRUSTED),
    advice("TEXT/bidi", "text has no bidirectional overrides or isolates", _LOOK, _UNTRUSTED),
    advice("TEXT/invisible", "text has no runs of zero-width characters", _LOOK, _UNTRUSTED),
    advice("TEXT/control", "text has no terminal escapes or other control characters", _LOOK, _UNTRUSTED),
    advice("TEXT/comment", "HTML comments contain no instructions", _LOOK, _UNTRUSTED),
    advice("TEXT/link", "a link leads where its text says", _LOOK, _UNTRUSTED),
)
