"""Command lines as one text: split, joined and resolved by the rules of the system that runs them.

All functions are told the system, so that each system's rules can be tested on every other.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from subprocess import list2cmdline
from typing import Final

_SHIMS: Final = (".cmd", ".bat")


def split_command(text: str, *, windows: bool) -> tuple[str, ...]:
    """The words of a command line; `ValueError` when a quote is left open.

    On Windows a backslash is part of a path, unless it stands before a double quote; single quotes group too,
    as people write them in a shell.
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
    """A command line that `split_command`, and the system's shell, split into these words."""
    return list2cmdline(words) if windows else shlex.join(words)


def resolve_program(
    words: Sequence[str], which: Callable[[str], str | None], *, windows: bool
) -> tuple[str, ...]:
    """The command with its program's full path on Windows, where `npx` is `npx.cmd` and only a shell knows.

    A shim is run by `cmd /c`, as Windows starts no batch file by itself. A program that is not found stays.
    """
    if not windows or not words:
        return tuple(words)
    found = which(words[0])
    if found is None:
        return tuple(words)
    if found.lower().endswith(_SHIMS):
        return ("cmd", "/c", found, *words[1:])
    return (found, *words[1:])
