"""The YAML events of a text: from libyaml where PyYAML has it, else from PyYAML's own Python.

The two differ in small things: tabs, `?` inside flow lists, escapes that name no character. The Python one is
brought into line here, so that a skill reads the same on every machine.
"""

# The stubs of PyYAML leave the scanner's own methods untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from typing import Protocol

from yaml.error import Mark
from yaml.events import Event
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner, ScannerError
from yaml.tokens import ScalarToken

_BLOCK_HEADER = re.compile(r"([+-]?)([1-9]?)|([1-9])([+-])")
_DOCUMENT_MARK = re.compile(r"(?:---|\.\.\.)[\0 \t\r\n]")


class EventParser(Protocol):
    """What both parsers have in common."""

    def __init__(self, stream: str) -> None: ...

    def get_event(self) -> Event | None: ...


class PythonParser(Reader, Scanner, Parser):
    """PyYAML's Python parser, reading as libyaml reads."""

    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        Parser.__init__(self)

    def scan_to_next_token(self) -> None:
        while True:
            # At the start of a block's line a tab would be indentation, which YAML forbids.
            self._skip(" \t" if self.flow_level or not self.allow_simple_key else " ")
            self._skip_comment()
            if not self.scan_line_break():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def scan_plain(self) -> ScalarToken:
        start = end = self.get_mark()
        indent = self.indent + 1
        text = ""
        gap: list[str] | None = []
        while (
            gap is not None and self.peek() != "#" and (self.flow_level or self.column >= indent or not text)
        ):
            length = 0
            while not self._ends_plain(length):
                length += 1
            if not length:
                break
            self.allow_simple_key = False
            text += "".join(gap) + self.prefix(length)
            self.forward(length)
            end = self.get_mark()
            gap = self.scan_plain_spaces(indent, start) or None
        return ScalarToken(text, True, start, end)

    def _ends_plain(self, ahead: int) -> bool:
        char = self.peek(ahead)
        if char == ":":
            return self.peek(ahead + 1) in ("\0 \t\r\n,[]{}" if self.flow_level else "\0 \t\r\n")
        return char in ("\0 \t\r\n,[]{}" if self.flow_level else "\0 \t\r\n")

    def scan_plain_spaces(self, indent: int, start_mark: Mark) -> list[str] | None:
        blanks = self._skip(" \t")
        if self.peek() not in "\r\n":
            return [blanks] if blanks else []
        breaks = 0
        while self.scan_line_break():
            breaks += 1
            self.allow_simple_key = True
            if _DOCUMENT_MARK.match(self.prefix(4)):
                return None
            self._skip(" ")
            if self.peek() == "\t" and self.column < indent:
                problem = "found a tab character that violates indentation"
                raise ScannerError("while scanning a plain scalar", start_mark, problem, self.get_mark())
            self._skip(" \t")
        return ["\n" * (breaks - 1) or " "]

    def scan_block_scalar_indicators(self, start_mark: Mark) -> tuple[bool | None, int | None]:
        length = 0
        while self.peek(length) not in "\0 \t\r\n#":
            length += 1
        header = _BLOCK_HEADER.fullmatch(self.prefix(length))
        if header is None:
            problem = "expected chomping or indentation indicators"
            raise ScannerError("while scanning a block scalar", start_mark, problem, self.get_mark())
        self.forward(length)
        chomping = {"+": True, "-": False}.get(header[1] or header[4])
        indent = header[2] or header[3]
        return chomping, int(indent) if indent else None

    def scan_block_scalar_ignored_line(self, start_mark: Mark) -> None:
        self._skip(" \t")
        self._skip_comment()
        if not self.scan_line_break() and self.peek() != "\0":
            problem = "expected a comment or a line break"
            raise ScannerError("while scanning a block scalar", start_mark, problem, self.get_mark())

    def scan_block_scalar_indentation(self) -> tuple[list[str], int, Mark]:
        found = super().scan_block_scalar_indentation()
        if self.peek() == "\t":
            problem = "found a tab character where an indentation space is expected"
            raise ScannerError("while scanning a block scalar", self.get_mark(), problem, self.get_mark())
        return found

    def scan_flow_scalar(self, style: str) -> ScalarToken:
        start = self.get_mark()
        try:
            token = super().scan_flow_scalar(style)
            token.value.encode("utf-8")
        except (ValueError, OverflowError):
            # A code beyond Unicode, or half of a pair of surrogates.
            problem = "found invalid Unicode character escape code"
            raise ScannerError("while scanning a quoted scalar", start, problem, start) from None
        return token

    def _skip(self, characters: str) -> str:
        length = 0
        while self.peek(length) in characters:
            length += 1
        skipped = self.prefix(length)
        self.forward(length)
        return skipped

    def _skip_comment(self) -> None:
        if self.peek() == "#":
            while self.peek() not in "\0\r\n":
                self.forward()


try:
    from yaml._yaml import CParser

    FastParser: type[EventParser] = CParser
except ImportError:
    FastParser = PythonParser
