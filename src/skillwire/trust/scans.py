"""Scan: the findings of an external scanner about the files of a skill, read from SARIF 2.1.0. Pure.

A scanner reads what strangers wrote, so its output is as untrusted as a skill: it is bounded before it is
parsed, and every text in it is cleaned. A refusal counts findings and quotes none of them, because a model
may read it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias, cast

from skillwire.documents import DocumentError, is_list, is_object, read_json
from skillwire.errors import LimitExceeded
from skillwire.text import safe_line
from skillwire.words import counted

SARIF_VERSION: Final = "2.1.0"
_FINDINGS_KEPT: Final = 100
_TEXT_CHARS: Final = 300
_Object: TypeAlias = Mapping[str, object]
_NOTHING: Final[_Object] = {}


class FindingLevel(IntEnum):
    """How serious a finding is, in the words of SARIF."""

    NONE = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


LEVELS: Final = {level.word: level for level in FindingLevel}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanner:
    """A program that a policy names, which prints SARIF about the files in `/skill`."""

    name: str
    command: tuple[str, ...]
    """The program, by an absolute path, and its arguments."""
    reads: tuple[str, ...] = ()
    """Folders and files that it gets to read, beside the skill and the programs of the system."""
    seconds: float
    refuse: FindingLevel | None = None
    """Findings of this level or a worse one refuse a skill; `None` if they are only shown."""

    @property
    def key(self) -> str:
        """The same for the same command: layers that name it share its findings."""
        return hashlib.sha256(json.dumps([self.command, self.reads]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. The texts are the scanner's own, cleaned, and untrusted."""

    level: FindingLevel
    rule: str
    message: str
    path: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return ": ".join(part for part in (self.level.word, place, self.rule, self.message) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The findings of one scanner about one set of files, the worst first; or why there are none."""

    scanner: str
    findings: tuple[Finding, ...] = ()
    """The first of them, if there are very many."""
    counts: tuple[tuple[FindingLevel, int], ...] = ()
    """How many there are of each level, the worst first."""
    problem: str = ""
    """Why it was not scanned, in our own words; empty if it was."""
    said: str = ""
    """The last line that the scanner printed when it failed. Untrusted."""

    @property
    def worst(self) -> FindingLevel:
        return self.counts[0][0] if self.counts else FindingLevel.NONE

    @property
    def words(self) -> str:
        """The result in a few words, none of them the scanner's."""
        if self.problem:
            return f"not scanned: {self.problem}"
        found = [counted(count, level.word) for level, count in self.counts if level]
        return ", ".join(found) or "no findings"

    def lines(self, most: int) -> list[str]:
        """The result for a person: its words, then the findings. Only for where untrusted text is shown."""
        shown = [str(finding) for finding in self.findings[:most]]
        left = sum(count for _, count in self.counts) - len(shown)
        more = [f"and {counted(left, 'more finding')}"] if left > 0 else []
        return [f"{self.scanner}: {self.words}", *([self.said] if self.said else []), *shown, *more]

    def as_json(self) -> dict[str, object]:
        """The result as a document."""
        findings = [
            {
                "level": one.level.word,
                "rule": one.rule,
                "message": one.message,
                "path": one.path,
                "line": one.line,
            }
            for one in self.findings
        ]
        return {"scanner": self.scanner, "result": self.words, "findings": findings}


def make_scan(scanner: str, findings: Iterable[Finding]) -> Scan:
    """A scan with these findings, sorted and counted."""
    ordered = sorted(findings, key=lambda one: (-one.level, one.path, one.line, one.rule, one.message))
    counts = Counter(finding.level for finding in ordered)
    return Scan(
        scanner=scanner,
        findings=tuple(ordered[:_FINDINGS_KEPT]),
        counts=tuple(sorted(counts.items(), reverse=True)),
    )


def parse_sarif(text: str, scanner: str) -> Scan:
    """The findings of a SARIF log; a scan with a `problem` for anything else."""
    try:
        document = read_json(text, what="what it printed")
        if not is_object(document) or document.get("version") != SARIF_VERSION:
            raise DocumentError(f"it did not print a SARIF log of version {SARIF_VERSION}")
        runs = _list(document, "runs")
        if not runs:
            raise DocumentError("its SARIF log has no run")
        findings = [one for run in runs for one in _run_findings(run)]
        return make_scan(scanner, findings)
    except (DocumentError, LimitExceeded) as error:
        return Scan(scanner=scanner, problem=str(error))
    except (ValueError, TypeError, LookupError, AttributeError):
        return Scan(scanner=scanner, problem="its SARIF log is malformed")


def _run_findings(run: _Object) -> list[Finding]:
    for invocation in _list(run, "invocations"):
        if not invocation["executionSuccessful"]:
            raise DocumentError("it reports in its SARIF log that it failed")
    if not isinstance(run.get("results"), list):  # SARIF: the scanner did not get to produce any.
        raise DocumentError("its SARIF log has a run without results")
    rules = _list(_below(run, "tool", "driver"), "rules")
    return [_finding(result, rules) for result in _list(run, "results")]


def _finding(result: _Object, rules: Sequence[_Object]) -> Finding:
    """One result. Suppressions are not obeyed: a comment in the skill may have asked for them."""
    reference = _below(result, "rule")
    name = str(result.get("ruleId") or reference.get("id") or "")
    index = result.get("ruleIndex", reference.get("index", -1))
    if isinstance(index, int) and 0 <= index < len(rules):
        rule = rules[index]
    else:
        rule = next((one for one in rules if one.get("id") == name), _NOTHING)
    location = _below(next(iter(_list(result, "locations")), _NOTHING), "physicalLocation")
    uri = str(_below(location, "artifactLocation").get("uri") or "")
    line = _below(location, "region").get("startLine")
    return Finding(
        level=_level(result, rule),
        rule=safe_line(name or str(rule.get("id") or ""), limit=100),
        message=safe_line(_message(_below(result, "message"), rule), limit=_TEXT_CHARS),
        path=safe_line(uri.removeprefix("file://").removeprefix("/skill/"), limit=_TEXT_CHARS),
        line=line if isinstance(line, int) and 0 < line < 2**31 else 0,
    )


def _level(result: _Object, rule: _Object) -> FindingLevel:
    """The level: its own, that of its rule, or `warning`. What waits for a review counts like a failure."""
    if result.get("kind", "fail") not in ("fail", "open", "review"):
        return FindingLevel.NONE  # It says what passed.
    configured = _below(rule, "defaultConfiguration").get("level")
    return LEVELS[str(result.get("level") or configured or FindingLevel.WARNING.word)]


def _message(message: _Object, rule: _Object) -> str:
    known = _below(rule, "messageStrings", str(message.get("id")))
    return str(message.get("text") or known.get("text") or _below(rule, "shortDescription").get("text") or "")


def _below(value: _Object, *keys: str) -> _Object:
    """The object at these keys, empty if it is absent; a `TypeError` for anything else."""
    for key in keys:
        found = value.get(key)
        if found is not None and not is_object(found):
            raise TypeError(key)
        value = found or _NOTHING
    return value


def _list(value: _Object, key: str) -> list[_Object]:
    found = value.get(key)
    if found is None:
        return []
    if not is_list(found) or not all(map(is_object, found)):
        raise TypeError(key)
    return cast("list[_Object]", found)
