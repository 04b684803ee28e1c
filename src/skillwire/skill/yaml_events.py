"""The YAML events of a text: from libyaml where PyYAML has it, else from PyYAML's own Python."""

from __future__ import annotations

from typing import Protocol

from yaml.events import Event
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner


class EventParser(Protocol):
    """What both parsers have in common."""

    def __init__(self, stream: str) -> None: ...

    def get_event(self) -> Event | None: ...


class PythonParser(Reader, Scanner, Parser):
    """PyYAML's Python parser."""

    def __init__(self, stream: str) -> None:
        Reader.__init__(self, stream)
        Scanner.__init__(self)
        Parser.__init__(self)


try:
    from yaml._yaml import CParser

    FastParser: type[EventParser] = CParser
except ImportError:
    FastParser = PythonParser
