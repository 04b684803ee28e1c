"""Origin: where a skill comes from, with the label that the user gave it (ENT-4, ENT-5)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from skillwire.errors import FormatError
from skillwire.text import shown

MAX_LABEL_LENGTH = 64
LOCAL_LABEL = "local"


class OriginKind(StrEnum):
    """Whose text it is: the user's own files, a project's, or an MCP server's."""

    LOCAL = "local"
    """The user's own files, which need no approval."""
    PROJECT = "project"
    """Files of a project, which others may have written. They are read from disk like the user's own, and
    need an approval like those of a server."""
    MCP = "mcp"
    """What an MCP server serves."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A local directory or an MCP server. Its label comes from the user, never from the server.

    A label is letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit, so that it can
    be part of handles, prompts and file names. No MCP server may be called `local`.
    """

    kind: OriginKind
    label: str

    def __post_init__(self) -> None:
        if message := _label_fault(self.kind, self.label):
            raise FormatError.of(
                rule="origin-label",
                message=f"the label '{shown(self.label)}' {message}",
                fix="choose another name"
                if "reserved" in message
                else "use letters, digits, hyphens, underscores and dots",
            )

    def __hash__(self) -> int:
        return hash(self.label)  # Hashed many times per skill; the kind would cost most.

    @classmethod
    def local(cls, label: str = LOCAL_LABEL) -> Origin:
        """A directory on this machine."""
        return cls(OriginKind.LOCAL, label)

    @classmethod
    def project(cls, label: str = "project") -> Origin:
        """A directory of a project on this machine. Its skills need approval like a server's."""
        return cls(OriginKind.PROJECT, label)

    @classmethod
    def mcp(cls, label: str) -> Origin:
        """An MCP server."""
        return cls(OriginKind.MCP, label)

    @property
    def is_local(self) -> bool:
        """Whether it is a directory on this machine, the user's own or a project's."""
        return self.kind is not OriginKind.MCP

    @property
    def is_own(self) -> bool:
        """Whether the files are the user's own, which need no approval."""
        return self.kind is OriginKind.LOCAL

    @property
    def fold(self) -> str:
        """The label in the form in which labels are compared, ignoring case."""
        return self.label.casefold()

    def __str__(self) -> str:
        kinds = {OriginKind.LOCAL: "local directory", OriginKind.PROJECT: "project directory"}
        return f"{kinds.get(self.kind, 'MCP server')} {self.label}"


def _label_fault(kind: OriginKind, label: str) -> str:
    if not label:
        return "is empty"
    if len(label) > MAX_LABEL_LENGTH:
        return f"has more than {MAX_LABEL_LENGTH} characters"
    if any(not char.isalnum() and char not in "-_." for char in label):
        return "has characters that are not allowed"
    if not (label[0].isalnum() and label[-1].isalnum()):
        return "does not start and end with a letter or digit"
    if not unicodedata.is_normalized("NFKC", label):
        # Two spellings that look alike would otherwise be two servers.
        return "has letters in a compatibility form"
    if kind is OriginKind.MCP and label.casefold() == LOCAL_LABEL:
        # SEC-1: text of a server never looks local.
        return "is reserved for local directories"
    return ""
