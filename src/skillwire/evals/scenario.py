"""Scenario: a task for a model, the servers that it has, and criteria that say whether it did it well.

A scenario is a TOML file, or a folder with a `scenario.toml`. Criteria are about what a model did, as a
sequence of steps, and about its answer. A step is a line: `load SKILL`, `read SKILL/PATH`, `call SERVER/TOOL`
or `refused ...` for one that was not allowed. In patterns `*` stands for any text. Nothing here needs a
model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from skillwire.documents import DocumentError, read_toml
from skillwire.errors import FormatError, SourceError
from skillwire.files import read_regular, unreadable
from skillwire.host import ConfigTable, HostConfig, load_settings
from skillwire.issues import Issue
from skillwire.json_types import JsonObject
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.text import clean_line, safe_line

SCENARIO_FILE: Final = "scenario.toml"
_STEP_CHARS: Final = 300
_VERBS: Final = ("load", "read", "call", "refused", "*")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a model did. `arguments` are those of a call."""

    line: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])

    @classmethod
    def make(cls, verb: str, about: str, arguments: Mapping[str, object] | None = None) -> Step:
        """A step about a name that a model or a server wrote."""
        return cls(safe_line(f"{verb} {about}", limit=_STEP_CHARS), arguments or {})

    def matches(self, pattern: str, arguments: Mapping[str, str] | None = None) -> bool:
        """Whether the line fits a pattern, and each of these arguments too."""
        return fnmatchcase(self.line, pattern) and all(
            name in self.arguments and fnmatchcase(_text(self.arguments[name]), wanted)
            for name, wanted in (arguments or {}).items()
        )

    def to_json(self) -> JsonObject:
        """The step for a report: arguments as text."""
        if not self.arguments:
            return {"step": self.line}
        return {
            "step": self.line,
            "arguments": {clean_line(k).text: _text(v) for k, v in self.arguments.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion. All that it says must hold."""

    name: str
    steps: tuple[str, ...] = ()
    """Steps that happen in this order, with or without others between them."""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    """Patterns for the arguments of the last of these steps."""
    before: tuple[str, ...] = ()
    """The steps happen before the first step that fits one of these."""
    never: tuple[str, ...] = ()
    """Steps that do not happen, nor are attempted."""
    answer: str = ""
    """A pattern for the answer, whose case does not count."""

    def is_met(self, steps: Sequence[Step], answer: str) -> bool:
        """Whether what happened is what this asks for."""
        if any(step.matches(one) or step.matches(f"refused {one}") for one in self.never for step in steps):
            return False
        if self.answer and not fnmatchcase(answer.lower(), self.answer.lower()):
            return False
        place = 0
        first = next(
            (at for at, step in enumerate(steps) if any(step.matches(one) for one in self.before)), len(steps)
        )
        for number, pattern in enumerate(self.steps, 1):
            wanted = self.arguments if number == len(self.steps) else None
            while place < first and not steps[place].matches(pattern, wanted):
                place += 1
            if place == first:
                return False
            place += 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A task, what a model has for it, and what is asked of it."""

    name: str
    prompt: str
    criteria: tuple[Criterion, ...]
    settings: HostConfig
    skill: str = ""
    """The skill that is left out in the control; all skills if it is empty."""
    allowed_tools: tuple[str, ...] = ()
    """Patterns of the tools that a model may call, as `SERVER/TOOL`."""
    folder: Path | None = None
    """The folder that the model can read files from; an empty one by default."""
    max_turns: int = 30
    max_tokens: int | None = None


def read_scenario(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Scenario:
    """The scenario in a file or a folder; a `FormatError` names every mistake in it."""
    file = (path / SCENARIO_FILE if path.is_dir() else path).absolute()
    try:
        values = read_toml(read_regular(file, limits.document_bytes + 1), what=str(file), limits=limits)
    except OSError as error:
        raise SourceError(f"{file} cannot be read: {unreadable(error)}") from None
    except DocumentError as error:
        fix = "see docs/evaluation.md for a scenario"
        raise FormatError.of(rule="scenario", file=str(file), message=str(error), fix=fix) from None
    issues: list[Issue] = []
    table = ConfigTable(values, file=str(file), issues=issues)
    settings = load_settings(table, file, issues)
    prompt, folder = table.string("prompt"), table.string("folder")
    if not prompt and "prompt" not in table:
        table.blame("prompt", "is missing", 'write prompt = "what the model is asked to do"')
    criteria = [_criterion(name, one) for name, one in table.tables("criteria").items()]
    if not criteria:
        table.blame("criteria", "is missing", 'write [criteria."the skill is read"] and steps = ["load *"]')
    scenario = Scenario(
        name=clean_line(table.string("name") or file.parent.name).text,
        prompt=prompt,
        criteria=tuple(criteria),
        settings=settings,
        skill=table.string("skill"),
        allowed_tools=table.strings("allowed_tools") or (),
        folder=file.parent / folder if folder else None,
        max_turns=table.integer("max_turns", most=1000) or Scenario.max_turns,
        max_tokens=table.integer("max_tokens", most=100_000_000),
    )
    if not settings.servers and not settings.directories and not issues:
        table.blame("servers", "is missing", "write [servers.NAME] and command or url, or directories")
    for tool in scenario.allowed_tools:
        if "/" not in tool:
            table.blame("allowed_tools", f"has {safe_line(tool)}", "write SERVER/TOOL")
    table.finish()
    if issues:
        raise FormatError(issues)
    return scenario


def _criterion(name: str, table: ConfigTable) -> Criterion:
    criterion = Criterion(
        name=clean_line(name).text,
        steps=table.strings("steps") or (),
        arguments=table.string_map("arguments"),
        before=table.strings("before") or (),
        never=table.strings("never") or (),
        answer=table.string("answer"),
    )
    if not (criterion.steps or criterion.never or criterion.answer):
        table.blame("", "asks for nothing", 'write steps = ["load *"], never or answer')
    for needed in ("arguments", "before"):
        if needed in table and not criterion.steps:
            table.blame(needed, "is about steps", 'write steps = ["call SERVER/TOOL"] beside it')
    for pattern in (*criterion.steps, *criterion.before, *criterion.never):
        verb, _, about = pattern.partition(" ")
        if verb not in _VERBS or (not about and verb != "*"):
            fix = "write load SKILL, read SKILL/PATH or call SERVER/TOOL"
            table.blame("", f"has the step {safe_line(pattern)}", fix)
    table.finish()
    return criterion


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean_line(text, limit=_STEP_CHARS * 10).text
