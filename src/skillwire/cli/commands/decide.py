"""The commands that decide which skills may be used, and show what policies allow."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, command, flag, path, text, texts
from skillwire.cli.commands import JUNIT, ON_SERVER, PASSWORD, SARIF

CALLER: Final = text("--caller NAME", "For this caller of a gateway instead of yourself.")
NAMES: Final = Argument(
    "names",
    "NAME",
    "The name of a skill, its URI, or a pattern such as 'shop/*'.",
    required=False,
    many=True,
    completion="skill",
)
_ALL: Final = flag("--all", "All skills of the server named with --on.", field="everything")
_APPROVALS: Final = (
    command(
        "ui",
        "gateway:ui",
        "Review skills in a browser: read, compare, approve, decline\n\n"
        "Serves one page on this machine until Ctrl-C, prints a link that opens it once, and opens it. "
        "Needs the packages of the extra `ui`.",
        flag("--open", "Open the page in the browser.", field="open_browser", default=True),
        text(
            "--http HOST:PORT",
            "Listen here instead of on a free port of this machine. An address that other machines "
            "can reach needs --token-file.",
        ),
        texts("--allow-host NAME", "Accept this Host and Origin too."),
        path("--token-file FILE", "Also admit people who enter a token from this file."),
        host=True,
        json=False,
        examples={
            "skillwire ui": "opens the page of your servers and directories",
            "skillwire ui --no-open --server shop=https://shop.example/mcp": "only prints the link",
        },
    ),
    command(
        "approve",
        "approvals:approve",
        "Approve skills with exactly the files that you were shown\n\n"
        "Shows them and asks on your terminal, once for all of them. Without a terminal, and inside an "
        "agent, nothing is approved: use the review page, or import approvals that are signed. Any change to "
        "the files revokes the approval.",
        NAMES,
        _ALL,
        flag("--allow-tools", "Also grant the tools that its allowed-tools field asks for."),
        flag("--allow-code", "Also allow running code while the skill is in use."),
        path("--sign KEY", "Sign the approvals with this private key, for a policy that names you."),
        PASSWORD,
        path("--output FILE", "Where --sign writes the signed approvals, for `approvals import` or a feed."),
        ON_SERVER,
        CALLER,
        host=True,
        examples={
            "skillwire approve refunds": "shows it and asks",
            "skillwire approve 'shop/*'": "every skill of a server that matches",
            "skillwire approve --all --on shop": "every skill of a server",
        },
    ),
    command(
        "revoke",
        "approvals:revoke",
        "Revoke approvals, or take declines back\n\n"
        "No server is contacted. A skill that you also installed is revoked in both places.",
        NAMES,
        _ALL,
        ON_SERVER,
        CALLER,
        examples={
            "skillwire revoke refunds": "it must be approved again before it loads",
            "skillwire revoke --all --on shop": "everything of a server",
        },
    ),
    command(
        "approvals list",
        "approvals:list_approvals",
        "List approvals with who gave them, when and how",
        text("--on NAME", "List the approvals for this server or directory only.", completion="server"),
        examples={
            "skillwire approvals": "everything that is approved",
            "skillwire approvals --on shop": "what is approved of one server",
        },
    ),
    command(
        "approvals decline",
        "approvals:decline",
        "Decline a skill as it is now\n\n"
        "It is not loaded, no model is told of it, and nobody is asked about it, until its files change "
        "or it is approved.",
        NAMES,
        _ALL,
        ON_SERVER,
        CALLER,
        host=True,
        examples={
            "skillwire approvals decline refunds": "`skillwire approve` or `skillwire revoke` takes it back",
            "skillwire approvals decline --all --on shop": "all of a server that wait for a decision",
        },
    ),
    command(
        "approvals request",
        "approvals:request_approval",
        "Ask whoever approves skills by the policy for one of them\n\n"
        "Writes what the skill is, where it comes from and the digests of its files, for the reviewer, who "
        "approves it with `approve --sign`.",
        Argument("name", "NAME", "The name of a skill, or its URI.", completion="skill"),
        path("--output FILE", "Write the request to this file instead of printing it."),
        ON_SERVER,
        host=True,
        examples={"skillwire approvals request refunds --output refunds.json": "send the file to the team"},
    ),
    command(
        "approvals export",
        "approvals:export_approvals",
        "Print all approvals as JSON, to share them\n\n"
        "Signed with a key that others name as one of their `approvers`, they can import them without a "
        "terminal.",
        path("--sign FILE", "Sign them with this private key, as `skillwire sign --new-key` makes one."),
        PASSWORD,
        json=False,
        examples={
            "skillwire approvals export": "redirect it to a file, for the rest of a team",
            "skillwire approvals export --sign team.pem": "for machines where nobody sits",
        },
    ),
    command(
        "approvals import",
        "approvals:import_approvals",
        "Import exported approvals\n\n"
        "They are shown, and you are asked on your terminal; not if they are signed by a publisher that "
        "`approvers` in your own skillwire.toml names. Each is recorded with the person who gave it.",
        Argument("file", "FILE", "A file of `approvals export`."),
        examples={"skillwire approvals import approvals.json": "review, then approve all"},
    ),
)


_POLICY: Final = (
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
        JUNIT,
        SARIF,
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

COMMANDS: Final = (*_APPROVALS, *_POLICY)
