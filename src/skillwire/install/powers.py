"""Powers: what a skill's folder may cause an agent to do beyond reading.

A folder has no fence: an agent may honor `allowed-tools` and may run the scripts beside the text. So both are
shown before a skill is installed, and each needs a grant of its own (SEC-2, SEC-4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from skillwire.json_types import JsonValue

if TYPE_CHECKING:
    from skillwire.trust.approval import Grants

_FOLDERS: Final = frozenset({"scripts", "bin", "hooks"})
_SUFFIX: Final = re.compile(
    r"\.(?:bash|bat|bin|cgi|cjs|cmd|com|cts|dll|dylib|exe|fish|go|jar|jsx?|lua|mjs|msi|mts|php|pl|psm?1|"
    r"py[cz]?|r|rb|rs|sh|so|swift|tsx?|vbs|wasm|whl|zsh)",
    re.IGNORECASE,
)
_MAGIC: Final = (b"#!", b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")


@dataclass(frozen=True, slots=True)
class Powers:
    """What a skill asks for: patterns of tools, and files that can be run."""

    allowed_tools: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.allowed_tools or self.scripts)

    def missing(self, grants: Grants) -> Powers:
        """What is asked for and not granted."""
        return Powers(
            () if grants.allowed_tools else self.allowed_tools, () if grants.execute_code else self.scripts
        )

    def grants_after(self, before: Powers | None, given: Grants | None = None) -> Grants:
        """The grants of this version: those given now, and those that the previous version had.

        An earlier grant covers the same tools and scripts again, and nothing more.
        """
        from skillwire.trust.approval import NO_GRANTS, Grants  # Imported here: most syncs need neither.

        now = given or NO_GRANTS
        new = self.beyond(before) if before is not None else self
        return Grants(
            allowed_tools=now.allowed_tools or (before is not None and not new.allowed_tools),
            execute_code=now.execute_code or (before is not None and not new.scripts),
        )

    def beyond(self, other: Powers) -> Powers:
        """What this asks for that the other did not."""
        return Powers(
            tuple(tool for tool in self.allowed_tools if tool not in other.allowed_tools),
            tuple(path for path in self.scripts if path not in other.scripts),
        )


def requested_powers(
    frontmatter: Mapping[str, JsonValue], files: Iterable[tuple[str, bytes, bool]]
) -> Powers:
    """What a skill asks for, by its frontmatter and its files, each given by path, content and mode bit."""
    # Imported here: a pinned skill has its powers in the lock.
    from skillwire.trust.guards import requested_tools

    tools = dict.fromkeys(requested_tools(frontmatter.get("allowed-tools")))
    scripts = sorted(path for path, data, executable in files if is_script(path, data, executable))
    return Powers(tuple(sorted(tools)), tuple(scripts))


def is_script(path: str, data: bytes, executable: bool = False) -> bool:
    """Whether a file can be run: by its mode, its folder, its name or its first bytes."""
    plain = PurePosixPath(path)
    return (
        executable
        or _SUFFIX.fullmatch(plain.suffix) is not None
        or any(part.lower() in _FOLDERS for part in plain.parts[:-1])
        or data.startswith(_MAGIC)
    )


def starts_with_interpreter(data: bytes) -> bool:
    """Whether a file begins with `#!`. From a source without file modes, it is installed as executable."""
    return data.startswith(b"#!")
