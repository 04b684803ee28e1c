"""The commands of people who write and publish skills."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, choice, flag, integer, path, seconds, text

TOKEN_VARIABLE: Final = "SKILLWIRE_TOKEN"  # noqa: S105 - the name of a variable, not a token
_YEAR: Final = 365 * 24 * 3600
CLIENTS: Final = (
    "claude-desktop",
    "claude-code",
    "cursor",
    "vscode",
    "codex",
    "gemini",
    "goose",
    "zed",
    "windsurf",
)
"""The clients that `serve --print-config` knows; `client_config.py` has their formats."""

COMMANDS: Final = (
    Command(
        name="serve",
        summary="Serve folders of skills over MCP",
        run="serve:run",
        arguments=(
            Argument(
                field="paths",
                metavar="PATH",
                help="A directory of skills, git+URL#REF:PATH, or https://SITE. PREFIX=PATH puts a prefix "
                "before their names.",
                required=False,
                many=True,
                completion="directory",
            ),
        ),
        options=(
            path("--locked", help="Serve exactly what this skillwire.lock pins."),
            flag("--installed", help="Serve the skills that installed Python packages carry."),
            text(
                "--store",
                metavar="URL",
                help="Serve a registry: postgresql://USER@HOST/NAME or sqlite:///FILE.",
            ),
            text("--channel", metavar="NAME", help="The registry's channel. The default is stable."),
            text("--oauth-issuer", metavar="URL", help="Accept access tokens of this issuer. Needs --store."),
            text(
                "--oauth-audience",
                metavar="URL",
                help="The audience of those tokens: this registry's own URL.",
            ),
            text(
                "--oauth-groups-claim",
                metavar="NAME",
                help="The claim with a user's groups. The default is groups.",
            ),
            seconds(
                "--refresh",
                help="Fetch repositories and sites again after this time, or on SIGHUP.",
                default=300,
                least=1,
                most=_YEAR,
            ),
            flag(
                "--well-known",
                help="Also serve the skills as archives under /.well-known/agent-skills/. Needs --http.",
            ),
            text(
                "--http",
                metavar="HOST:PORT",
                help="Serve Streamable HTTP at /mcp instead of stdio. "
                "A port alone means 127.0.0.1; port 0 picks a free one.",
            ),
            text(
                "--allow-host", metavar="NAME", many=True, help="Accept this Host and Origin too. Repeatable."
            ),
            path(
                "--token-file",
                help="Require a bearer token of this file: NAME TOKEN on each line, or one token. "
                f"It is read again when it changes. {TOKEN_VARIABLE} in the environment works too.",
            ),
            flag("--unsafe-no-auth", help="Listen on a public address without a token."),
            flag("--stateless", help="Stateless HTTP: no sessions."),
            integer("--max-connections", help="Accept at most N HTTP connections.", default=2000, least=1),
            integer(
                "--max-connections-per-address",
                help="Accept at most N HTTP connections from one address.",
                default=512,
                least=1,
            ),
            integer(
                "--max-body-bytes",
                help="Accept HTTP requests of at most N bytes.",
                default=16 * 1024 * 1024,
                least=1,
            ),
            integer(
                "--max-sessions",
                help="Keep at most N sessions of the 2025 revisions over HTTP.",
                default=10_000,
                least=1,
            ),
            seconds(
                "--session-timeout",
                help="End a session after this time without a request.",
                default=1800,
                least=0.1,
                most=_YEAR,
            ),
            seconds(
                "--head-timeout",
                help="Close an HTTP connection that has not sent the head of a request by then.",
                default=10,
                least=0.1,
                most=_YEAR,
            ),
            seconds(
                "--body-timeout",
                help="Refuse an HTTP request whose body has not arrived by then.",
                default=60,
                least=0.1,
                most=_YEAR,
            ),
            seconds(
                "--write-timeout",
                help="Cut off a client that takes less than 64 KiB of a response in this time.",
                default=30,
                least=0.1,
                most=_YEAR,
            ),
            seconds(
                "--idle-timeout",
                help="Close an HTTP connection after this time without a request.",
                default=75,
                least=1,
                most=_YEAR,
            ),
            text(
                "--name",
                metavar="NAME",
                help="The name that the server introduces itself by. The default is skillwire.",
            ),
            text(
                "--instructions",
                metavar="TEXT | @FILE",
                help="What clients tell their model about this server.",
            ),
            flag("--access-log", help="Log each HTTP request to standard error."),
            choice(
                "--log-format",
                choices=("text", "json"),
                default="text",
                help="Write the log as text or as one JSON object per line.",
            ),
            seconds("--ttl", help="Cache lifetime of responses.", default=60, most=_YEAR),
            choice(
                "--cache-scope",
                choices=("public", "private"),
                help="Cache scope of responses. Private by default when there is a token.",
            ),
            integer("--page-size", help="Skills per page of a listing.", default=100, least=1, most=1000),
            text(
                "--unlisted",
                metavar="GLOB",
                many=True,
                help="Serve the skills whose path matches, but do not list them. Repeatable.",
            ),
            flag(
                "--allow-oversize", help="Serve skills of over 512 files or 16 MiB, which hosts may refuse."
            ),
            flag("--strict", help="Accept no stretched format, and do not start if any skill has a problem."),
            flag(
                "--follow-links",
                help="Follow links to any place. By default they lead no further than the directories given, "
                "your skill folders, and the repository or project around a directory.",
            ),
            flag("--watch", help="Watch the directories and notify clients of changes.", default=True),
            flag("--fast-path", help="Respond to common requests without the SDK.", default=True),
            flag(
                "--scan-cache",
                help="Cache digests, so that the next start reads only what changed.",
                default=True,
                hidden=("--scan-index", "--no-scan-index"),
            ),
            choice(
                "--print-config",
                choices=CLIENTS,
                help="Print the configuration that makes a client use this server, and exit.",
            ),
            choice(
                "--index",
                choices={"april-2026": "d2", "early-june-2026": "d3", "june-2026": "d4", "off": "off"},
                default="d2",
                help="The draft whose format skill://index.json has, for clients of earlier drafts.",
            ),
            flag("--manifests", help="Serve skill://NAME/_manifest, for FastMCP clients.", default=True),
            flag("--prompt-xml", help="Serve the catalog at skill://prompt-xml.", default=True),
            flag("--list-legacy", help="List the index, the manifests and the catalog among the resources."),
            flag(
                "--list-files",
                help="List the supporting files among the resources, for hosts that look for them there.",
            ),
            choice(
                "--tools",
                choices=("auto", "always", "never"),
                default="auto",
                help="Offer load_skill and related tools. auto hides them from clients that support the "
                "extension.",
            ),
            flag(
                "--prompts",
                help="Offer each skill as a prompt, which clients show as a slash command.",
                default=True,
            ),
        ),
        examples=(
            ("skillwire serve ./skills", "one client, over stdio"),
            ("skillwire serve ./skills --http 127.0.0.1:8000", "any number of clients, over HTTP"),
            ("skillwire serve acme=./skills ~/more-skills", "two directories, one with a prefix"),
            ("skillwire serve ./skills --print-config cursor", "what to add to a client"),
            ("skillwire serve git+https://git.example/skills#v1.2 ./local", "a repository at a tag, too"),
            ("skillwire serve --locked skillwire.lock", "exactly the pinned set"),
        ),
    ),
    Command(
        name="lint",
        summary="Check skills for errors and get advice on them",
        about="An error costs the skill: no server serves it. A warning is for what some hosts refuse, and "
        "says which. Turn a rule off with --ignore, or for one skill by a comment in its SKILL.md: "
        "# skillwire-lint-ignore: RULE. Exits with 1 if there are errors or warnings, and with 0 if not.",
        run="lint:lint",
        arguments=(
            Argument(
                field="paths",
                metavar="PATH",
                help="A skill, a directory of skills at any depth, or a SKILL.md file. "
                "By default the working directory.",
                kind="path",
                required=False,
                many=True,
                completion="file",
            ),
        ),
        options=(
            flag("--strict", help="Exit with 1 for advice, too."),
            flag("--errors-only", help="Report errors alone."),
            text("--ignore", metavar="RULE", many=True, help="Leave out this rule. Repeatable."),
            flag("--all", help="List every place of every rule.", field="show_all"),
            flag("--fix", help="Repair what needs no guessing, and show the changes as a diff."),
            flag("--diff", help="Show what --fix would change, and change nothing."),
            flag("--watch", help="Check again after every change."),
            choice(
                "--format",
                choices=("text", "json", "github", "sarif"),
                default="text",
                help="Format of the report. github annotates pull requests, sarif is for code scanning.",
                field="output",
            ),
            JSON,
        ),
        examples=(
            ("skillwire lint ./skills", "every issue of every skill, by rule, with its fix"),
            ("skillwire lint ./skills --fix", "repair quotes, names and line endings"),
            ("skillwire lint ./skills --strict --format github", "for continuous integration"),
        ),
    ),
    Command(
        name="new",
        summary="Start a new skill",
        about="Writes a SKILL.md that passes lint, for you to fill in. It never overwrites one.",
        run="lint:new",
        arguments=(
            Argument(
                field="path",
                metavar="PATH",
                help="The directory to make. Its name is the name of the skill.",
                kind="path",
                completion="directory",
            ),
        ),
        options=(text("--description", metavar="TEXT", help="What the skill does and when to use it."),),
        examples=(("skillwire new skills/release-notes", "a skill called release-notes"),),
    ),
    Command(
        name="verify",
        summary="Check that a server conforms to the Skills extension",
        about="Also checks the skills that a site lists under /.well-known/agent-skills/: every artifact is "
        "fetched and compared with its digest. Exits with 0 if it conforms, 1 if it does not, and 2 if it "
        "could not be checked.",
        run="verify:verify",
        arguments=(
            Argument(
                field="target",
                metavar="URL | NAME | -- COMMAND",
                help="A server's URL, the name of a configured one, or -- and a command that starts one. "
                "A site's URL, such as https://example.org, checks its index of skills.",
                required=False,
                many=True,
                completion="command",
            ),
        ),
        options=(
            choice(
                "--as",
                choices=("auto", "server", "site"),
                default="auto",
                field="kind",
                help="Take the URL for an MCP server or for a site. auto takes one without a path for a site "
                "if it has an index of skills.",
            ),
            choice(
                "--protocol",
                choices=("both", "2025-11-25", "2026-07-28"),
                default="both",
                field="protocol",
                help="The protocol revisions to test.",
                hidden=("--era",),
            ),
            integer(
                "--max-skills",
                help="Read the files of at most N skills.",
                default=200,
                least=1,
            ),
            integer(
                "--max-bytes",
                help="Download at most N bytes per protocol revision.",
                least=1,
                default=256 * 1024 * 1024,
            ),
            seconds(
                "--timeout",
                help="Wait this long for each response.",
                default=30,
                least=0.1,
                most=3600,
            ),
            text(
                "--header",
                metavar="'NAME: VALUE'",
                help="Send this HTTP header. NAME=VALUE works too. Repeatable.",
                many=True,
            ),
            text(
                "--token-env", metavar="VARIABLE", help="Send the bearer token in this environment variable."
            ),
            text(
                "--ignore",
                metavar="RULE",
                help="Skip a rule, or all rules of a requirement. Repeatable.",
                many=True,
            ),
            text(
                "--only",
                metavar="RULE",
                help="Report this rule, or the rules of this requirement, and no other. Repeatable.",
                many=True,
            ),
            choice(
                "--fail-on",
                choices=("must", "should", "advice"),
                default="should",
                field="fail_on",
                help="Exit with 1 for findings of this level or more serious.",
            ),
            path("--baseline", help="Do not fail for findings that this earlier --json report has."),
            path("--trace", help="Write every message to this file, without secrets."),
            path("--junit", help="Also write a JUnit report to this file."),
            flag("--rules", help="List the rules and exit."),
            JSON,
        ),
        examples=(
            ("skillwire verify https://example.org/mcp", "a server that is running"),
            ("skillwire verify -- node server.mjs", "a server that the command starts over stdio"),
            ("skillwire verify docs", "the configured server called docs"),
            ("skillwire verify https://example.org", "the index of a site, and every digest in it"),
            ("skillwire verify --rules", "the list of checks"),
        ),
    ),
)
