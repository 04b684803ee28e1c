"""The pytest plugin as the CI of another server uses it, through pytest runs of their own."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from skillwire.conformance import RULES as ALL_RULES

pytest_plugins = ["pytester"]


RULES = [rule for rule in ALL_RULES if rule.requirement != "PROFILE"]
pytestmark = pytest.mark.process

TESTS = Path(__file__).parent.parent
PLAIN = ("-p", "no:cacheprovider")


def server(name: str) -> str:
    """The command of a server with this defect."""
    return f"env PYTHONPATH={TESTS} {sys.executable} -m conformance.defective_server {name}"


def test_the_plugin_is_installed_with_the_package() -> None:
    found = [one.value for one in entry_points(group="pytest11") if one.name == "skillwire"]
    assert found == ["skillwire.pytest_plugin"]


def test_a_server_gets_one_test_for_each_rule(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess(*PLAIN, "--skillwire-verify", server("digest-wrong"))
    done.assert_outcomes(passed=len(RULES) - 1, failed=1)
    done.stdout.fnmatch_lines(["*ENT-3/digest*skill://atlas/logo.bin*", "*skills.extensions*#*"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_rules_are_chosen_and_left_out_like_any_test(pytester: pytest.Pytester) -> None:
    target = ("--skillwire-verify", server("digest-wrong"))
    chosen = pytester.runpytest_subprocess(*PLAIN, *target, "-k", "LST-1", "-v")
    assert chosen.parseoutcomes()["passed"] == sum(rule.requirement == "LST-1" for rule in RULES)
    ignored = pytester.runpytest_subprocess(*PLAIN, *target, "--skillwire-ignore", "ENT-3")
    ignored.assert_outcomes(passed=sum(rule.requirement != "ENT-3" for rule in RULES))
    wrong = pytester.runpytest_subprocess(*PLAIN, *target, "--skillwire-ignore", "NO-1")
    wrong.stderr.fnmatch_lines(["*--skillwire-ignore: NO-1 is not a rule*"])


def test_a_server_that_cannot_be_verified_fails_once(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess(*PLAIN, "--skillwire-verify", "http://127.0.0.1:9/mcp")
    done.assert_outcomes(failed=1, skipped=len(RULES) - 1)
    done.stdout.fnmatch_lines(["*nothing listens at 127.0.0.1:9*start the server*"])


def test_a_run_without_the_option_imports_little_of_skillwire(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            ours = {name for name in sys.modules if name.startswith("skillwire")}
            assert not ours & {"skillwire.conformance", "skillwire.host", "skillwire.server"}
            assert "skillwire.pytest_plugin" in ours
            assert "mcp" not in sys.modules
        """
    )
    done = pytester.runpytest_subprocess(*PLAIN)
    done.assert_outcomes(passed=1)


def test_the_fixtures_serve_and_load_a_skill(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import anyio

        TEXT = "---\\nname: hello\\ndescription: Say hello. Use when somebody arrives.\\n---\\n# Say hello\\n"

        def test_a_skill_is_served_and_loaded(skill_server, skill_host):
            server = skill_server({"hello/SKILL.md": TEXT})

            async def load():
                async with skill_host(servers={"mine": server}) as host:
                    return [skill.uri for skill in host.skills()]

            assert anyio.run(load) == ["skill://hello/SKILL.md"]
        """
    )
    done = pytester.runpytest_subprocess(*PLAIN)
    done.assert_outcomes(passed=1)
