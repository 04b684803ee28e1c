"""Telemetry: spans and metrics for operations on skills, through `opentelemetry-api` only.

It is active if the program has configured OpenTelemetry. A configured provider gets `skillwire.discover`,
`load_skill NAME`, `read_skill_file NAME`, `skillwire.approve` and, from a gateway, `skillwire.gateway`.
Neither the text of skills nor paths on the user's disk are recorded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.text import clean_line
from skillwire.version import VERSION

Value: TypeAlias = str | int | bool

SET_DIGEST: Final = "skillwire.set_digest"
ORIGIN: Final = "skillwire.origin"
DIALECT: Final = "skillwire.dialect"
VERDICT: Final = "skillwire.verdict"
SKILLS: Final = "skillwire.skills"

_NAME: Final = "skillwire"
_DESCRIPTION_CHARS: Final = 300
# These have few values each, so that metrics can be kept for every combination.
_API_PROVIDERS: Final = ("opentelemetry.trace", "opentelemetry.metrics")
_METRIC_KEYS: Final = (ORIGIN, DIALECT, VERDICT)


@dataclass(slots=True)
class Operation:
    """One operation, with the attributes that it has when it ends."""

    kind: str
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    verdict: str = "ok"

    def set(self, key: str, value: Value) -> None:
        """Add an attribute."""
        self.attributes[key] = value


def _nothing() -> Mapping[str, Value]:
    return {}


@contextmanager
def operation(
    kind: str, name: str = "", attributes: Callable[[], Mapping[str, Value]] = _nothing
) -> Generator[Operation]:
    """A span and a measurement around a block. An error of ours becomes the verdict, and is raised as usual.

    `kind` is `discover`, `load`, `read`, `approve` or `gateway`; `name` the name of the span. `attributes` is
    only called if telemetry is active.
    """
    api = _api()
    if api is None:
        yield Operation(kind)
        return
    trace, metrics = api
    done = Operation(kind, dict(attributes()))
    started = time.perf_counter()
    with trace.get_tracer(_NAME, VERSION).start_as_current_span(
        name or f"{_NAME}.{kind}", record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield done
        except SkillwireError as error:
            done.verdict = verdict_of(error)
            # The message may quote a server or name a file, so only the type is recorded.
            span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise
        except BaseException as error:
            done.verdict = "failed"
            span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            done.attributes[VERDICT] = done.verdict
            span.set_attributes(done.attributes)
            _measure(metrics, done, time.perf_counter() - started)


def verdict_of(error: SkillwireError) -> str:
    """An error as one word."""
    if isinstance(error, ApprovalRequired):
        return f"not-approved:{error.reason}"
    return f"refused:{type(error).__name__}"


def skill_attributes(
    name: str, description: str, uri: str, *, origin: str, dialect: str, digest: str | None, is_local: bool
) -> dict[str, Value]:
    """The attributes of a skill, without place and description if it is on the user's disk."""
    found: dict[str, Value] = {"gen_ai.skill.name": name, DIALECT: dialect}
    found[ORIGIN] = "local" if is_local else origin
    if not is_local:
        found["gen_ai.skill.description"] = clean_line(description, limit=_DESCRIPTION_CHARS).text
        found["gen_ai.skill.source.uri"] = uri
    if digest is not None:
        found[SET_DIGEST] = digest
    return found


def trace_context() -> dict[str, str]:
    """Return the `_meta` that ties a request to its span; empty when nobody traces."""
    carrier: dict[str, str] = {}
    if _api() is not None:
        from opentelemetry.propagate import inject

        inject(carrier)
    return carrier


def _measure(metrics: Any, done: Operation, seconds: float) -> None:
    kept = {key: done.attributes[key] for key in _METRIC_KEYS if key in done.attributes}
    meter = metrics.get_meter(_NAME, VERSION)
    # A meter returns the same instrument for the same name.
    meter.create_counter(f"{_NAME}.{done.kind}.count", "{operation}", f"{done.kind} operations").add(1, kept)
    meter.create_histogram(f"{_NAME}.{done.kind}.duration", "s", f"time of {done.kind} operations").record(
        seconds, kept
    )
    if done.verdict.startswith(("refused", "not-approved")):
        meter.create_counter(f"{_NAME}.refusals", "{refusal}", "what was refused, and why").add(1, kept)


def is_active() -> bool:
    """Whether somebody records spans or metrics."""
    return _api() is not None


def _api() -> tuple[Any, Any] | None:
    """The modules `trace` and `metrics` if the program uses OpenTelemetry. We never import it ourselves."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    try:
        from opentelemetry import metrics, trace
    except ImportError:
        return None
    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    # The MCP SDK imports the API, whose own providers record nothing.
    if all(type(provider).__module__.startswith(_API_PROVIDERS) for provider in providers):
        return None
    return trace, metrics
