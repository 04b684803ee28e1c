"""`skillwire try`: one task through a model service, to see whether a model uses a skill as it should."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.parser import UsageError

if TYPE_CHECKING:
    from skillwire.adapters.trial import HttpService, Trial
    from skillwire.host.host import SkillHost

_DEFAULTS: Final = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": ("https://api.openai.com", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
}
"""For each message format: the service, and the variables of another address and of the key."""
_FAILED: Final = 1
_MARKS: Final = {True: ("pass", "green"), False: ("FAIL", "red"), None: ("none", "dim")}
_ANSWER_SHOWN: Final = 2000


def try_model(
    *,
    model: str | None,
    format: Literal["anthropic", "openai"] | None,
    base_url: str | None,
    key_env: str | None,
    skill: str | None,
    task: str | None,
    expect: str | None,
    options: HostOptions,
    as_json: bool,
) -> int:
    """Give a model one task, check five things that it should do with a skill, and fail if one is missing."""
    if skill is None and (task is not None or expect is not None):
        raise UsageError("--task and --expect belong to a skill of yours: name it with --skill")
    if skill is not None and (task is None or expect is None):
        raise UsageError("--skill needs --task TEXT, and --expect TEXT that the answer must contain")
    service = _service(model, format, base_url, key_env)
    if skill is None or task is None or expect is None:
        trial = _with_own_skill(service, options)
    else:
        trial = _with_skill(service, skill, task, expect, options)
    _show(trial, service, as_json=as_json)
    return 0 if trial.passed else _FAILED


def _service(model: str | None, format: str | None, base_url: str | None, key_env: str | None) -> HttpService:
    """The service to ask. The key comes from the environment: a command line is seen by others."""
    from skillwire.adapters.trial import HttpService

    if model is None:
        raise UsageError("--model is missing: write skillwire try --model NAME")
    kind: Literal["anthropic", "openai"] = "openai"
    if format == "anthropic" or (format is None and model.lower().startswith("claude")):
        kind = "anthropic"
    address, address_variable, key_variable = _DEFAULTS[kind]
    url = base_url or os.environ.get(address_variable, "").strip() or address
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"--base-url must start with https:// or http://, not {url!r}")
    variable = key_env or key_variable
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"a key for the model service is needed: set the variable {variable}, "
            "or name another one with --key-env"
        )
    return HttpService(kind, url, key, model)


def _with_own_skill(service: HttpService, options: HostOptions) -> Trial:
    """A skill made for this run and served in this process; nothing of the user's is shown."""
    import asyncio
    from tempfile import TemporaryDirectory

    from skillwire.adapters.trial import TRIAL_TASK, TRIAL_URI, run_trial, write_trial_skill
    from skillwire.cli.host_options import check_style
    from skillwire.host.host import SkillHost
    from skillwire.host.styles import DEFAULT
    from skillwire.server.app import SkillServer

    async def agree(request: object) -> bool:
        return True  # The skill is our own.

    async def run(folder: Path) -> Trial:
        expect = write_trial_skill(folder / "skills")
        host = SkillHost(
            servers={"trial": SkillServer(folder / "skills")},
            style=options.style or DEFAULT,
            ask=agree,
            cache_directory=folder / "cache",
            approvals_file=folder / "approvals.sqlite",
        )
        async with host:
            return await run_trial(host, service, skill=TRIAL_URI, task=TRIAL_TASK, expect=expect)

    check_style(options.style)
    with TemporaryDirectory(prefix="skillwire-try-") as folder:
        return asyncio.run(run(Path(folder)))


def _with_skill(service: HttpService, skill: str, task: str, expect: str, options: HostOptions) -> Trial:
    """One of the user's skills, which must be approved as for any other model."""
    from skillwire.adapters.trial import run_trial
    from skillwire.cli.ask import terminal_callback

    async def action(host: SkillHost) -> Trial:
        return await run_trial(host, service, skill=skill, task=task, expect=expect)

    return with_host(options, action, ask=terminal_callback())


def _show(trial: Trial, service: HttpService, *, as_json: bool) -> None:
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, padded, show_json

    if as_json:
        show_json(
            {
                "model": service.model,
                "format": service.format,
                "passed": trial.passed,
                "checks": [
                    {"name": check.name, "passed": check.passed, "detail": check.detail or None}
                    for check in trial.checks
                ],
                "calls": [{"tool": name, "arguments": arguments} for name, arguments in trial.calls],
                "answer": trial.answer,
            }
        )
        return
    screen = Screen()
    screen.line((f"{printable(service.model)} ({service.format} format)", "bold"))
    widest = max(len(check.name) for check in trial.checks)
    for check in trial.checks:
        word, style = _MARKS[check.passed]
        detail = printable(check.detail) if check.passed is not True else ""
        screen.line("  ", (word, style), f"  {padded(check.name, widest)}  {detail}".rstrip())
    screen.line()
    screen.line(("Tool calls", "bold"))
    for name, arguments in trial.calls:
        screen.wrapped(f"{printable(name)} {printable(arguments)}", indent=2)
    if not trial.calls:
        screen.line("  none")
    screen.line(("Answer", "bold"))
    screen.quoted(trial.answer[:_ANSWER_SHOWN] or "(empty)")
