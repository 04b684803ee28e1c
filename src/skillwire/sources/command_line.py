"""Command lines: split, joined and resolved by the rules of the system that runs them. The system is a
parameter, so that all rules can be tested everywhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from subprocess import list2cmdline
from typing import Final

_SHIMS: Final = (".cmd", ".bat")
_NOT_IN_A_BATCH: Final = frozenset("\r\n\0")
_PLAIN_IN_A_BATCH: Final = re.compile(r"[\w.:/\\@+~-]+", re.ASCII)
_BACKSLASHES_BEFORE_QUOTE: Final = re.compile(r'(\\+)("|\Z)')
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9_]{3,}\b")
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_INHERITED_ON_WINDOWS: Final = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
)
_PROXIES: Final = frozenset(
    name
    for upper in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in (upper, upper.lower())
)
# Needed for network access behind a proxy or with custom certificates.
GATEWAYS: Final = "SKILLWIRE_GATEWAYS"
"""The variable with the gateways that a server is started by, so that none starts itself again."""
_NETWORK: Final = (
    *sorted(_PROXIES),
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)


def split_command(text: str, *, windows: bool) -> tuple[str, ...]:
    """The words of a command line; `ValueError` if a quote is not closed.

    On Windows a backslash is part of a path, unless it precedes a double quote; single quotes group words
    too.
    """
    if not windows:
        return tuple(shlex.split(text))
    words: list[str] = []
    word, quote, started = "", "", False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and text[position + 1 : position + 2] == '"' and quote != "'":
            word, started = word + '"', True
            position += 1
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char == '"' or (char == "'" and not word):
            quote, started = char, True
        elif char.isspace():
            if started or word:
                words.append(word)
            word, started = "", False
        else:
            word += char
        position += 1
    if quote:
        raise ValueError("No closing quotation")
    if started or word:
        words.append(word)
    return tuple(words)


def join_command(words: Sequence[str], *, windows: bool) -> str:
    """A command line that `split_command` and the system's shell split into these words."""
    return list2cmdline(words) if windows else shlex.join(words)


def resolve_program(
    words: Sequence[str], which: Callable[[str], str | None], *, windows: bool
) -> tuple[str, ...] | str:
    """The command with the full path of its program on Windows, where `npx` is `npx.cmd`. A batch file is
    started through the command interpreter. A program that is not found is unchanged. Raises `ValueError` if
    an argument cannot be passed to a batch file.
    """
    if not windows or not words:
        return tuple(words)
    found = which(words[0])
    if found is None:
        return tuple(words)
    if found.lower().endswith(_SHIMS):
        return batch_line((found, *words[1:]))
    return (found, *words[1:])


def batch_line(words: Sequence[str]) -> str:
    """A line with which `cmd.exe` starts a batch file with exactly these words, and does nothing else. In
    quotes, `cmd` leaves every character unchanged except for the quote, which is doubled, and the percent
    sign, which is followed by an empty expansion so that it does not begin a variable.
    """
    return " ".join(map(_batch_word, words))


def _batch_word(word: str) -> str:
    if _NOT_IN_A_BATCH & set(word):
        raise ValueError("an argument with a line break cannot be given to a batch file")
    if _PLAIN_IN_A_BATCH.fullmatch(word):
        return word
    quoted = _BACKSLASHES_BEFORE_QUOTE.sub(lambda match: match[1] * 2 + match[2], word)
    return '"' + quoted.replace('"', '""').replace("%", "%%cd:~,%") + '"'


def absolute_entries(path: str, *, windows: bool) -> str:
    """The PATH without relative entries, so that nothing in the working directory is found."""
    separator, kind = (";", PureWindowsPath) if windows else (":", PurePosixPath)
    return separator.join(entry for entry in path.split(separator) if kind(entry).is_absolute())


def anchored_program(word: str, folder: str, *, windows: bool) -> str:
    """The program of a command in a file: a relative path is relative to the folder of the file. A bare name
    is unchanged, and looked up on the PATH.
    """
    kind = PureWindowsPath if windows else PurePosixPath
    separators = {"/", "\\"} if windows else {"/"}
    if not separators & set(word) or kind(word).is_absolute():
        return word
    return str(kind(folder) / word)


def server_environment(ours: Mapping[str, str], given: Mapping[str, str], *, windows: bool) -> dict[str, str]:
    """The environment of a started server: basic variables, and those in its configuration. The rest of our
    environment may contain other secrets. A proxy is passed on unless its URL contains a password.
    """
    names = _INHERITED_ON_WINDOWS if windows else _INHERITED
    found = {name: ours[name] for name in (*names, *_NETWORK, GATEWAYS) if name in ours}
    found = {name: value for name, value in found.items() if name not in _PROXIES or "@" not in value}
    environment = {**found, **given}
    if "PATH" in environment:
        environment["PATH"] = absolute_entries(environment["PATH"], windows=windows)
    return environment


def withheld_variables(
    output: Iterable[str], ours: Mapping[str, str], passed: Mapping[str, str]
) -> tuple[str, ...]:
    """The variables that are set here, were not passed on, and are mentioned in a server's last output."""
    words = {word for line in output for word in _VARIABLE.findall(line)}
    return tuple(sorted(word for word in words if word in ours and word not in passed))
