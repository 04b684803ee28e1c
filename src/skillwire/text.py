"""Untrusted text made safe to show: hidden characters removed (SEC-11) and secrets replaced.

`clean_line` is for single lines: names, descriptions, labels, URIs. `clean_text` is for bodies: it keeps line
ends and tabs. Both remove what a reader cannot see but a terminal or a model obeys: control characters and
terminal escapes, bidirectional controls, Unicode tag characters, zero-width characters, invisible fillers,
variation selectors and lone surrogates. Both are idempotent.

Legitimate scripts are preserved. ZERO WIDTH JOINER and NON-JOINER shape Persian, Indic and emoji text, so
they are kept where they do: one at a time, after a virama, inside a word of a joining script or between two
pictographs. Emoji and text selectors (U+FE0E, U+FE0F) are kept after a symbol or a digit, one at a time.
Elsewhere, such characters only carry hidden data. Direction marks (U+200E, U+200F, U+061C) are removed: they
move the punctuation around a name, such as the label of its server. The tag sequences of three regional flags
are removed with all other tag characters, which leaves a plain flag.

`redact_url` and `redact` are for text that may contain credentials: URLs of servers, and their output.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NewType
from urllib.parse import unquote

SafeLine = NewType("SafeLine", str)
"""One line of text, cleaned by `clean_line`."""
SafeText = NewType("SafeText", str)
"""Several lines of text, cleaned by `clean_text`."""

_ZWNJ, _ZWJ, _EMOJI_STYLE = "\u200c", "\u200d", "\ufe0f"
_CONTEXTUAL: Final = "\u200c\u200d\ufe0e\ufe0f"

# Controls but tab and line feed; format characters but the visible Arabic, Syriac and Kaithi number signs;
# fillers and selectors that show nothing; noncharacters; surrogates.
_HIDDEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff\ufdd0-\ufdef"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)
# A sequence that moves the cursor or changes colors is removed whole. Of other escapes only the control
# characters are removed, so that text hidden in them becomes visible.
_CSI: Final = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]")
_LINE_END: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SPACES: Final = re.compile(r"\s+")
_PLAIN: Final = re.compile("[\t\n -~]*")
# Visible ASCII with single spaces, as in most names and descriptions: nothing to clean.
_PLAIN_LINE: Final = re.compile("[!-~]+(?: [!-~]+)*")
_WITH_CONTEXT: Final = re.compile(f"[{_CONTEXTUAL}]")
# Arabic to Sinhala (with Syriac, N'Ko and the Indic scripts), Myanmar, Khmer, Mongolian.
_JOINING_SCRIPTS: Final = ((0x0600, 0x0DFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1800, 0x18AF))
# Possibly hidden characters, one at a time; CR LF counts as one.
_SUSPECT: Final = re.compile(f"\r\n|{_HIDDEN.pattern}|[{_CONTEXTUAL}]")
_VIRAMA: Final = 9
_ELLIPSIS: Final = "…"

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~=:@$^])")

_STARS: Final = "***"
_SHORTEST_SECRET: Final = 6  # Shorter values occur in ordinary text too often to be replaced everywhere.
_SECRET_NAME: Final = re.compile("key|token|secret|pass|pwd|auth|credential|signature", re.IGNORECASE)
# Repetitions before a fixed part are bounded, because a server can send a long text that almost matches.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")
_AUTHORITY: Final = re.compile(r"(?:[^\s:@/\[\]]+|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?")
_AFTER_AUTHORITY: Final = re.compile(r"[/?#\\]")
_USERINFO: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s\"'<>/?#]*@")
_SECRET_PAIR: Final = re.compile(
    r"([?&;][^=&#\s]{0,40}(?:key|token|secret|pass|pwd|auth|credential|signature|sig|code)[^=&#\s]{0,40}=)"
    r"[^&#\s\"'<>]+",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_LONGEST_SEGMENT: Final = 40
_MOST_CHANGES: Final = 3


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A cleaned text, and how many characters were removed from it."""

    text: str
    removed: int = 0
    """The number of hidden characters removed, without white space that became a space."""
    shortened: bool = False

    @property
    def remark(self) -> str:
        """A note about removed characters, or nothing."""
        parts: list[str] = []
        if self.removed:
            parts.append(
                f"{self.removed} hidden {'character' if self.removed == 1 else 'characters'} removed"
            )
        if self.shortened:
            parts.append("shortened")
        return ", ".join(parts)


def shown(text: str, limit: int = 60) -> str:
    """Untrusted text for a message: printable, shortened, and on one line."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in cut)


def clean_line(text: str, *, limit: int | None = None) -> Cleaned:
    """The text on one line, with white space collapsed, and at most `limit` characters."""
    if _is_plain_line(text, limit):
        return Cleaned(text)
    shown, removed = _visible(text)
    shown = _SPACES.sub(" ", shown).strip(" ")
    if limit is None or len(shown) <= limit:
        return Cleaned(shown, removed)
    cut = shown[: max(limit - 1, 0)].rstrip(" " + _CONTEXTUAL)
    return Cleaned((cut + _ELLIPSIS)[:limit], removed, shortened=True)


def _is_plain_line(text: str, limit: int | None) -> bool:
    """Whether nothing of a text has to be removed. So it is with most."""
    return (limit is None or len(text) <= limit) and _PLAIN_LINE.fullmatch(text) is not None


def clean_text(text: str) -> Cleaned:
    """The text with its lines and tabs; every line ends with a line feed."""
    return Cleaned(*_visible(text))


def safe_line(text: str, *, limit: int | None = None) -> SafeLine:
    """The text of `clean_line`, for callers that do not report what was removed."""
    if _is_plain_line(text, limit):
        return SafeLine(text)
    return SafeLine(clean_line(text, limit=limit).text)


def safe_text(text: str) -> SafeText:
    """The text of `clean_text`, for callers that do not report what was removed."""
    return SafeText(clean_text(text).text)


def split_hidden(text: str) -> Iterator[tuple[str, bool]]:
    """Split the text into visible and hidden runs (true), for a display that names hidden characters. The
    runs in order are the whole text.
    """
    seen = 0
    hidden = ""
    before = ""
    for match in _SUSPECT.finditer(text):
        at = match.start()
        if at > seen:
            if hidden:
                yield hidden, True
                hidden = ""
            before = text[at - 1]
        if match[0] == "\r\n" or (
            match[0] in _CONTEXTUAL and _works(before, match[0], text[match.end() : match.end() + 1])
        ):
            before = match[0]
            continue  # It stays in the visible run.
        if at > seen:
            yield text[seen:at], False
        hidden += match[0]
        seen = match.end()
    if hidden:
        yield hidden, True
    if seen < len(text):
        yield text[seen:], False


def decode_text(data: bytes | None) -> str | None:
    """Bytes as text; `None` when they are binary, or not there."""
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def escape_xml(text: str) -> str:
    """Cleaned text, escaped for the content or a quoted attribute of an XML element."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace('"', "&quot;").replace("'", "&#39;")


def escape_markdown(text: str) -> str:
    """A cleaned line, escaped so that Markdown shows it as plain text."""
    return _MARKDOWN.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def redact_url(url: str) -> str:
    """A URL without parts that may be secret: user name and password, query, fragment, and random path
    segments.

    Of a URL without a host, only the scheme is kept. Control characters are not removed; use `clean_line` for
    that.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _ELLIPSIS if url else ""
    if not scheme.isascii() or not scheme.replace("+", "").replace("-", "").replace(".", "").isalnum():
        return _ELLIPSIS
    end = match.start() if (match := _AFTER_AUTHORITY.search(rest)) else len(rest)
    host = rest[:end].rpartition("@")[2]
    bare, question, _ = rest[end:].partition("#")[0].partition("?")
    if not _AUTHORITY.fullmatch(host) or "@" in bare:
        # A slash or question mark in a password ends the host too early, so nothing of it is shown.
        return f"{scheme}://{_ELLIPSIS}"
    segments = bare.split("/")
    for at, segment in enumerate(segments):
        if _is_random(segment) or (at and _SECRET_NAME.fullmatch(segments[at - 1]) and segment):
            segments[at] = _ELLIPSIS
    return f"{scheme}://{host}{'/'.join(segments)}{f'?{_ELLIPSIS}' if question else ''}"


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with stars for each of `secrets`, and for every recognizable credential:
    user name and password in a URL, a secret parameter of a query, what follows `Bearer` or `Basic`.
    """
    for secret in sorted({secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}, key=len)[::-1]:
        text = text.replace(secret, _STARS)
    text = _USERINFO.sub(rf"\1{_STARS}@", text)
    text = _SECRET_PAIR.sub(rf"\1{_STARS}", text)
    return _BEARER.sub(rf"\1\2{_STARS}", text)


def secrets_in_urls(text: str) -> list[str]:
    """The passwords and query values of every URL in a text, as written and decoded."""
    found: list[str] = []
    for match in _URL.finditer(text):
        rest, _, query = match[0].partition("://")[2].partition("#")[0].partition("?")
        user = rest.rpartition("@")[0]
        found.append(user.partition(":")[2] or user)
        found += [pair.partition("=")[2] for pair in query.split("&")]
    return [form for secret in found if secret for form in dict.fromkeys((secret, unquote(secret)))]


def is_secret_name(name: str) -> bool:
    """Whether a header, variable or parameter of this name is likely to contain a credential."""
    return bool(_SECRET_NAME.search(name))


def secrets_in_arguments(command: Sequence[str]) -> list[str]:
    """Possible secrets in the arguments of a command: `--token X`, `API_KEY=X`, a password in a URL."""
    found = [secret for word in command for secret in secrets_in_urls(word)]
    for before, word in zip(("", *command), command, strict=False):
        name, equals, value = word.partition("=")
        if equals and _SECRET_NAME.search(name):
            found.append(value)
        elif before.startswith("-") and "=" not in before and _SECRET_NAME.search(before):
            found.append(word)
    return found


def _is_random(segment: str) -> bool:
    """Whether a path segment looks like a token rather than a word."""
    if len(segment) > _LONGEST_SEGMENT or any(char in segment for char in "=@:;%"):
        return True
    kinds = ["d" if char.isdigit() else "l" for char in segment if char.isalnum()]
    return sum(one != other for one, other in pairwise(kinds)) > _MOST_CHANGES


def _visible(text: str) -> tuple[str, int]:
    if _PLAIN.fullmatch(text):
        return text, 0
    joined = _LINE_END.sub("\n", text)
    shown = _HIDDEN.sub("", _CSI.sub("", joined))
    if _WITH_CONTEXT.search(shown):
        shown = _drop_idle_joiners(shown)
    return shown, len(joined) - len(shown)


def _drop_idle_joiners(text: str) -> str:
    kept: list[str] = []
    start = 0
    before = ""
    for match in _WITH_CONTEXT.finditer(text):
        at = match.start()
        if at > start:
            kept.append(text[start:at])
            before = text[at - 1]
        # `before` is the last kept character, so at most one of several joiners is kept.
        if _works(before, match[0], text[at + 1 : at + 2]):
            kept.append(match[0])
            before = match[0]
        start = at + 1
    return "".join([*kept, text[start:]])


def _works(before: str, joiner: str, after: str) -> bool:
    if not before:
        return False
    category = unicodedata.category(before)
    if joiner not in (_ZWNJ, _ZWJ):
        return category[0] in "SNP" or before == "\u2139"
    if joiner == _ZWJ and (category in ("So", "Sk") or before == _EMOJI_STYLE):
        return bool(after) and unicodedata.category(after) == "So"
    if unicodedata.combining(before) == _VIRAMA:
        return True
    return _joins(before) and bool(after) and _joins(after)


def _joins(char: str) -> bool:
    point = ord(char)
    return (
        any(low <= point <= high for low, high in _JOINING_SCRIPTS) and unicodedata.category(char)[0] in "LM"
    )


_COMMAND: Final = re.compile(r"[:;,.]?[^:;`]*`skillwire [^`]*`[^:;]*")


def for_model(message: str) -> str:
    """A message of ours as a model may read it: instead of a command, it says that the user must act.

    A model with a shell would run the command, and it is the user who decides.
    """
    if "`skillwire " not in message:
        return message
    return f"{_COMMAND.sub('', message).rstrip(' :;,.')}. Only the user can act on that: tell them"
