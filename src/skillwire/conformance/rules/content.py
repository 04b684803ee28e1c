"""Rules about what the files say: signatures, advice for authors, and text that a person does not see."""

from __future__ import annotations

from typing import Final

from skillwire.conformance.rules.model import FORMAT, Clause, advice, extension

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

CONTENT_RULES: Final = (
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
