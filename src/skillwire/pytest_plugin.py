"""The pytest plugin: fixtures for tests with skills, and `--skillwire-verify`, one test for each rule.

pytest imports this module in every run, so it imports nothing else of Skillwire until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from skillwire.conformance import Report, Rule
    from skillwire.host import SkillHost
    from skillwire.server import SkillServer

_TARGET = "skillwire_verify"
_IGNORE = "skillwire_ignore"
_TOKEN_ENV = "skillwire_token_env"  # noqa: S105 - the name of an option
_TIMEOUT = "skillwire_timeout"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("skillwire", "conformance tests of skill servers")
    group.addoption(
        "--skillwire-verify",
        dest=_TARGET,
        metavar="URL|COMMAND",
        help="Run one test for each rule of the Skills extension against this server.",
    )
    group.addoption(
        "--skillwire-ignore",
        dest=_IGNORE,
        metavar="RULE",
        action="append",
        default=[],
        help="Leave out a rule, or all rules of a requirement. Repeatable.",
    )
    group.addoption(
        "--skillwire-token-env",
        dest=_TOKEN_ENV,
        metavar="VARIABLE",
        help="Send the bearer token in this environment variable to the server.",
    )
    group.addoption(
        "--skillwire-timeout",
        dest=_TIMEOUT,
        metavar="SECONDS",
        type=float,
        help="Wait this long for each response of the server.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the conformance tests, before `-k` and `-m` select tests."""
    target: str | None = config.getoption(_TARGET)
    if target:
        make: Any = RuleCollector  # pytest's constructor has no types that a strict checker accepts.
        rules: RuleCollector = make.from_parent(session, name="skillwire-verify", nodeid="skillwire-verify")
        items.extend(rules.collect())


class CannotVerify(Exception):
    """The server cannot be verified: it cannot be reached, or does not answer."""


class RuleCollector(pytest.Collector):
    """The conformance rules as tests. The server is verified once, when the first of them runs."""

    _report: Report | None = None
    _failure: str = ""
    _reported: bool = False

    def collect(self) -> Iterator[pytest.Item]:
        from skillwire.conformance import RULES
        from skillwire.conformance.rules import check_names, matches
        from skillwire.errors import SourceError

        try:
            ignored = check_names(self.config.getoption(_IGNORE) or ())
        except SourceError as error:
            raise pytest.UsageError(f"--skillwire-ignore: {error}") from None
        make: Any = RuleItem
        for rule in (rule for rule in RULES if rule.requirement != "PROFILE"):
            if not matches(rule.id, ignored):
                yield make.from_parent(self, name=rule.id, rule=rule)

    def report(self) -> Report:
        """The report on the server. If it cannot be made, the first test fails and the others are skipped."""
        if self._report is None and not self._failure:
            self._run()
        if self._report is not None:
            return self._report
        if self._reported:
            pytest.skip("the server cannot be verified")
        self._reported = True
        raise CannotVerify(self._failure)

    def _run(self) -> None:
        import os
        from dataclasses import replace

        import anyio

        from skillwire.conformance import verify
        from skillwire.errors import SkillwireError
        from skillwire.limits import DEFAULT_LIMITS

        target = str(self.config.getoption(_TARGET))
        variable: str | None = self.config.getoption(_TOKEN_ENV)
        token = os.environ.get(variable, "").strip() if variable else ""
        seconds: float | None = self.config.getoption(_TIMEOUT)
        limits = DEFAULT_LIMITS if seconds is None else replace(DEFAULT_LIMITS, call_seconds=seconds)
        if variable and not token:
            self._failure = f"{variable} is not set to a token"
            return

        async def run() -> Report:
            return await verify(target, token=token, limits=limits)

        try:
            self._report = anyio.run(run)
        except SkillwireError as error:
            self._failure = str(error)
        else:
            if self._report.checked_nothing and not self._report.violations:
                self._report = None
                self._failure = "the server has no skills to check, so nothing was verified"


class RuleFailure(Exception):
    """A rule that the server violates."""


class RuleItem(pytest.Item):
    """One rule. It fails for violations; advice passes, and is shown in the output of the test."""

    _rule: Rule

    @classmethod
    def from_parent(cls, parent: Any, *, rule: Rule, **options: Any) -> Any:
        item: Any = super().from_parent(parent, **options)  # pyright: ignore[reportUnknownMemberType]
        item._rule = rule
        return item

    def runtest(self) -> None:
        collector = self.parent
        if not isinstance(collector, RuleCollector):
            raise TypeError("a rule is collected by RuleCollector")
        rule = self._rule
        findings = collector.report().of(rule.id)
        if not findings:
            return
        text = "\n".join([*map(str, findings), f"clause: {rule.clause.says}", rule.clause.link])
        if rule.level.is_violation:
            raise RuleFailure(text)
        self.add_report_section("call", "advice", text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, RuleFailure | CannotVerify):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, int | None, str]:
        return "skillwire-verify", None, f"{self._rule.id}: {self._rule.expected}"


@pytest.fixture
def skill_server(tmp_path: Path) -> Callable[..., SkillServer]:
    """A function that creates a `SkillServer` from directories, or from files given as text.

    `skill_server("./skills")` serves a directory; `skill_server({"hello/SKILL.md": text})` writes the files
    to a temporary directory and serves it. Options are those of `SkillServer`.
    """

    def make(*sources: Any, **options: Any) -> SkillServer:
        from skillwire.server import SkillServer

        served: list[Any] = []
        for number, source in enumerate(sources):
            served.append(_written(source, tmp_path / f"skills-{number}"))
        return SkillServer(*served, **options)

    return make


@pytest.fixture
def skill_host(tmp_path: Path) -> Callable[..., SkillHost]:
    """A function that creates a `SkillHost` with its own approvals and cache, without any configuration.

    Options are those of `SkillHost`, such as `servers={"docs": skill_server(...)}`. Use `async with`.
    """

    def make(**options: Any) -> SkillHost:
        from skillwire.host import SkillHost

        state: dict[str, Any] = {
            "cache_directory": tmp_path / "cache",
            "approvals_file": tmp_path / "approvals.sqlite",
        }
        return SkillHost(**{**state, **options})

    return make


def _written(source: Any, directory: Path) -> Any:
    if not isinstance(source, Mapping):
        return source
    files: Mapping[str, str | bytes] = source  # pyright: ignore[reportUnknownVariableType]
    for name, content in files.items():
        file = directory / name
        if not file.resolve().is_relative_to(directory.resolve()):
            raise ValueError(f"{name} is not below the directory of the skills")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory
