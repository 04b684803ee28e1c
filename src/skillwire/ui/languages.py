"""Colors for common languages: comments, strings, numbers and keywords, found by one pattern each.

Every alternative starts with a different character and never backtracks, so a text that was made to be slow
takes no longer than any other. A full lexer would know more, and could be made to hang.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple


class _Language(NamedTuple):
    keywords: str
    line_comment: str = ""
    block_comment: tuple[str, str] | None = None
    quotes: str = "\"'"
    triple: bool = False


_C_LIKE: Final = (
    "abstract as async await bool boolean break byte case catch chan char class const continue crate default "
    "defer delete do double dyn else enum export extends extern false final finally float fn for from func "
    "function go goto if impl implements import in instanceof int interface internal let long loop map match "
    "mod move mut namespace new nil null override package private protected pub public range readonly record "
    "ref return sealed select self short signed sizeof static struct super switch template this throw throws "
    "trait true try type typedef typeof undefined union unsafe unsigned use using var virtual void volatile "
    "where while with yield"
)
_PYTHON: Final = (
    "and as assert async await break case class continue def del elif else except False finally for from "
    "global if import in is lambda match None nonlocal not or pass raise return True try while with yield"
)
_SHELL: Final = (
    "case do done elif else esac eval exec exit export fi for function if in local readonly return set shift "
    "source then trap unset until while"
)
_RUBY: Final = (
    "alias and begin break case class def do else elsif end ensure false for if in module next nil not or "
    "redo require rescue retry return self super then true undef unless until when while yield"
)
_SQL: Final = (
    "alter and as by case create delete desc distinct drop else end exists from group having in index inner "
    "insert into is join key left like limit not null on or order outer primary select set table then union "
    "update values when where with"
)
_CURLY: Final = _Language(_C_LIKE, "//", ("/*", "*/"), "\"'`")
_HASH: Final = _Language("true false null yes no on off", "#")
_LANGUAGES: Final = {
    "py": _Language(_PYTHON, "#", triple=True),
    "sh": _Language(_SHELL, "#"),
    "rb": _Language(_RUBY, "#"),
    "sql": _Language(_SQL, "--", ("/*", "*/")),
    "json": _Language("true false null", quotes='"'),
    "html": _Language("", "", ("<!--", "-->")),
    "css": _Language("", "", ("/*", "*/")),
    "c": _CURLY,
    "conf": _HASH,
}
_SUFFIXES: Final = {
    **dict.fromkeys(("py", "pyi"), "py"),
    **dict.fromkeys(("sh", "bash", "zsh", "fish", "ps1", "mk"), "sh"),
    **dict.fromkeys(("rb",), "rb"),
    **dict.fromkeys(("sql",), "sql"),
    **dict.fromkeys(("json", "jsonl", "ipynb"), "json"),
    **dict.fromkeys(("html", "htm", "xml", "svg", "vue"), "html"),
    **dict.fromkeys(("css", "scss", "less"), "css"),
    **dict.fromkeys(
        (
            "c",
            "cc",
            "cpp",
            "cs",
            "go",
            "h",
            "hpp",
            "java",
            "js",
            "jsx",
            "kt",
            "mjs",
            "cjs",
            "mts",
            "cts",
            "php",
        ),
        "c",
    ),
    **dict.fromkeys(("rs", "scala", "swift", "ts", "tsx", "proto", "jsonc"), "c"),
    **dict.fromkeys(("yaml", "yml", "toml", "ini", "cfg", "conf", "env", "properties"), "conf"),
}
_NAMES: Final = {"dockerfile": "sh", "makefile": "sh", ".env": "conf", "gemfile": "rb", "rakefile": "rb"}


def pattern_for(path: str) -> re.Pattern[str] | None:
    """The pattern for a file, with a group for each color; `None` for an unknown language."""
    name = path.rpartition("/")[2].lower()
    language = _NAMES.get(name) or _SUFFIXES.get(name.rpartition(".")[2] if "." in name else "")
    return _pattern(language) if language else None


@cache
def _pattern(name: str) -> re.Pattern[str]:
    language = _LANGUAGES[name]
    comments: list[str] = []
    if language.block_comment:
        start, end = map(re.escape, language.block_comment)
        comments.append(rf"{start}(?:(?!{end})[\s\S])*(?:{end})?")
    if language.line_comment:
        before = r"(?<![\w$&])" if language.line_comment == "#" else ""
        comments.append(rf"{before}{re.escape(language.line_comment)}[^\n]*")
    strings: list[str] = []
    if language.triple:
        strings += [rf"{quote}{{3}}(?:(?!{quote}{{3}})[\s\S])*(?:{quote}{{3}})?" for quote in language.quotes]
    strings += [rf"{quote}(?:[^{quote}\\\n]|\\[^\n])*{quote}?" for quote in language.quotes]
    groups = [f"(?P<c>{'|'.join(comments)})" if comments else "", f"(?P<s>{'|'.join(strings)})"]
    if language.keywords:
        groups.append(rf"(?P<k>\b(?:{'|'.join(language.keywords.split())})\b)")
    groups.append(r"(?P<m>\b[0-9][0-9A-Fa-f_xob.]*\b)")
    return re.compile("|".join(group for group in groups if group))
