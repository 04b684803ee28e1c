"""The commands that show and test what policies allow."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import ON_SERVER, Argument, command, path

COMMANDS: Final = (
    command(
        "policy show",
        "policy:show",
        "Show what holds here, or what it decides about a skill or a source\n\n"
        "The layers are the machine's policy, the organization's signed one that it names, --policy, yours "
        "and the project's. A skill is used only if none of them refuses it. docs/policy.md has every key. "
        "With NAME, each rule of each layer, and whether it refuses that skill or source.",
        Argument(
            "name",
            "NAME",
            "A skill as `skillwire list` shows it, or a source.",
            required=False,
            completion="skill",
        ),
        ON_SERVER,
        host=True,
        examples={
            "skillwire policy": "every layer with its rules",
            "skillwire policy --policy draft.toml": "the same with a file that is not in force yet",
            "skillwire policy show refunds": "why a skill is refused, or not",
            "skillwire policy show https://docs.example.org/mcp": "a source",
        },
    ),
    command(
        "policy check",
        "policy:check",
        "Check a lock file or a configuration against the policy, for CI\n\n"
        "Nothing is fetched but what the policy itself names. Ends with 15 if something is refused.",
        Argument(
            "files",
            "FILE",
            "skillwire.lock, which is the default, or skillwire.toml.",
            kind="path",
            required=False,
            many=True,
        ),
        path("--junit FILE", "Also write a JUnit report to this file."),
        path("--sarif FILE", "Also write a SARIF 2.1.0 report to this file."),
        host=True,
        examples={
            "skillwire policy check skillwire.lock": "what is pinned",
            "skillwire policy check skillwire.lock skillwire.toml --sarif policy.sarif": "with a report",
        },
    ),
    command(
        "policy test",
        "policy:test",
        "Compare the policy with a table of expectations\n\n"
        "The file has [[expect]] tables with source, and optionally skill, digest and signed_by; allowed "
        "says what the answer should be, rule by which rule. Ends with 1 if an answer differs.",
        Argument("file", "FILE", "A TOML file with [[expect]] tables.", kind="path"),
        host=True,
        examples={
            "skillwire policy test expectations.toml --policy draft.toml": "before a policy is in force"
        },
    ),
)
