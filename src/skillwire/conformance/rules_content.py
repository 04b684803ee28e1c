"""Rules about what the files say: advice for authors, and text that a reader does not see. All are advice."""

from __future__ import annotations

from typing import Final

_LINT: Final = {
    "allowed-tools-blank": "a field has a value or is left out",
    "allowed-tools-list": "allowed-tools is one string",
    "body-empty": "instructions follow the frontmatter",
    "body-lines": "the body has at most 500 lines",
    "body-tokens": "the body has at most about 5,000 tokens",
    "compatibility-blank": "a field has a value or is left out",
    "compatibility-length": "compatibility has 1 to 500 characters",
    "description-long": "the description stays below 700 characters",
    "description-short": "the description says enough to choose by",
    "description-when": "the description says when to use the skill",
    "license-blank": "a field has a value or is left out",
    "metadata-blank": "a field has a value or is left out",
    "metadata-value-type": "values of metadata are strings",
    "reference-missing": "a path in the text is a file of the skill",
    "reference-outside": "a path in the text stays inside the skill",
    "unknown-field": "the frontmatter has the fields of the format",
    "other": "`skillwire lint` has nothing to remark",
}
_LOOK: Final = "look at the place: this is no proof of ill will, but a reader does not see what a model reads"

CONTENT_RULES: Final = (
    *(
        (f"LINT/{name}", "advice", expected, "see the remark; `skillwire lint` shows the same on the files")
        for name, expected in _LINT.items()
    ),
    ("TEXT/tags", "advice", "text has no Unicode tag characters", _LOOK),
    ("TEXT/bidi", "advice", "text has no bidirectional overrides or isolates", _LOOK),
    ("TEXT/invisible", "advice", "text has no runs of zero-width characters", _LOOK),
    ("TEXT/control", "advice", "text has no terminal escapes or other control characters", _LOOK),
    ("TEXT/comment", "advice", "HTML comments hold no instructions", _LOOK),
    ("TEXT/link", "advice", "a link leads where its text says", _LOOK),
)
