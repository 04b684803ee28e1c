"""The pytest plugin as the CI of another server uses it, through pytest runs of their own."""

from __future__ import annotations

import sys
from collections.abc import Generator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from conformance.defective_server import make_server, serving_http
from skillwire.conformance import RULES as ALL_RULES

pytest_plugins = ["pytester"]


RULES = [rule for rule in ALL_RULES if rule.requirement != "PROFILE"]
pytestmark = pytest.mark.process

TESTS = Path(__file__).parent.parent
PLAIN = ("-p", "no:cacheprovider")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options for a run without the other plugins of this environment, which take longer than the run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return (*PLAIN, "-p", "skillwire.pytest_plugin")


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """Where a server listens whose digests are wrong."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving_http(make_server("digest-wrong"))) as url,
    ):
        yield url


def test_the_plugin_is_installed_with_the_package() -> None:
    found = [one.value for one in entry_points(group="pytest11") if one.name == "skillwire"]
    assert found == ["skillwire.pytest_plugin"]


def test_a_server_gets_one_test_for_each_rule(pytester: pytest.Pytester, alone: tuple[str, ...]) -> None:
    command = f"env PYTHONPATH={TESTS} {sys.executable} -m conformance.defective_server digest-wrong"
    done = pytester.runpytest_subprocess(*alone, "--skillwire-verify", command)
    done.assert_outcomes(passed=len(RULES) - 1, failed=1)
    done.stdout.fnmatch_lines(["*ENT-3/digest*skill://atlas/logo.bin*", "*skills.extensions*#*"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_rules_are_chosen_and_left_out_like_any_test(
    pytester: pytest.Pytester, alone: tuple[str, ...], url: str
) -> None:
    target = ("--skillwire-verify", url)
    options = ("--skillwire-ignore", "ENT-3", "-k", "LST-1 or ENT-3", "-v")
    done = pytester.runpytest_subprocess(*alone, *target, *options)
    done.assert_outcomes(
        passed=sum(rule.requirement == "LST-1" for rule in RULES),
        deselected=sum(rule.requirement not in ("LST-1", "ENT-3") for rule in RULES),
    )
    wrong = pytester.runpytest_subprocess(*alone, *target, "--skillwire-ignore", "NO-1")
    wrong.stderr.fnmatch_lines(["*--skillwire-ignore: NO-1 is not a rule*"])


def test_a_server_that_cannot_be_verified_fails_once(
    pytester: pytest.Pytester, alone: tuple[str, ...]
) -> None:
    done = pytester.runpytest_subprocess(*alone, "--skillwire-verify", "http://127.0.0.1:9/mcp")
    done.assert_outcomes(failed=1, skipped=len(RULES) - 1)
    done.stdout.fnmatch_lines(["*nothing listens at 127.0.0.1:9*start the server*"])


def test_fixtures_serve_and_load_a_skill_and_nothing_is_imported_before_they_are_used(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import sys

        import anyio

        TEXT = "---\\nname: hello\\ndescription: Say hello. Use when somebody arrives.\\n---\\n# Say hello\\n"

        def test_nothing_is_imported():
            ours = {name for name in sys.modules if name.startswith("skillwire")}
            assert not ours & {"skillwire.conformance", "skillwire.host", "skillwire.server"}
            assert "skillwire.pytest_plugin" in ours
            assert "mcp" not in sys.modules

        def test_a_skill_is_served_and_loaded(skill_server, skill_host):
            server = skill_server({"hello/SKILL.md": TEXT})

            async def load():
                async with skill_host(servers={"mine": server}) as host:
                    return [skill.uri for skill in host.skills()]

            assert anyio.run(load) == ["skill://hello/SKILL.md"]
        """
    )
    # In the order of the file, whatever the plugins of this environment would do.
    done = pytester.runpytest_subprocess(*PLAIN, "-p", "no:random_order")
    done.assert_outcomes(passed=2)
