"""The commands of people who write and publish skills."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, integer, path, seconds, text, timeout
from skillwire.cli.commands.serving import CONNECTION_OPTIONS, HTTP_OPTIONS, LISTING_OPTIONS

TOKEN_VARIABLE: Final = "SKILLWIRE_TOKEN"  # noqa: S105 - the name of a variable, not a token
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
    command(
        "serve",
        "serve:run",
        "Serve folders of skills over MCP",
        Argument(
            "paths",
            "PATH",
            "A directory of skills, git+URL#REF:PATH, or https://SITE. PREFIX=PATH puts a prefix "
            "before their names.",
            required=False,
            many=True,
            completion="directory",
        ),
        *HTTP_OPTIONS,
        path(
            "--token-file FILE",
            "Require a bearer token from this file: NAME TOKEN on each line, or one token. "
            f"It is read again when it changes. {TOKEN_VARIABLE} in the environment works too.",
        ),
        choice(
            f"--print-config {'|'.join(CLIENTS)}",
            "Print the configuration that makes a client use this server, and exit.",
        ),
        flag("--strict", "Accept only the exact format, and do not start if any skill has a problem."),
        flag("--watch", "Watch the directories and notify clients of changes.", default=True),
        flag(
            "--follow-links",
            "Follow links anywhere. By default links may only lead into the given directories, your "
            "skill folders, and the repository or project that contains a directory.",
        ),
        flag("--allow-oversize", "Serve skills of over 512 files or 16 MiB, which hosts may refuse."),
        text(
            "--unlisted GLOB",
            "Serve the skills whose path matches, but do not list them. Repeatable.",
            many=True,
        ),
        text("--name NAME", "The name that the server introduces itself by. The default is skillwire."),
        text("--instructions TEXT | @FILE", "What clients tell their model about this server."),
        *LISTING_OPTIONS,
        seconds("--ttl SECONDS", "Cache lifetime of responses.", default=60, least=0),
        choice(
            "--cache-scope public|private",
            "Cache scope of responses. Private by default when there is a token.",
        ),
        path("--locked FILE", "Serve exactly what this skillwire.lock pins."),
        flag("--installed", "Serve the skills in installed Python packages."),
        flag(
            "--well-known",
            "Also serve the skills as archives under /.well-known/agent-skills/. Needs --http.",
        ),
        seconds(
            "--refresh SECONDS",
            "Fetch repositories and sites again after this time, or on SIGHUP.",
            default=300,
            least=1,
        ),
        text(
            "--store URL",
            "Serve a registry: postgresql://USER@HOST/NAME or sqlite:///FILE. Without a PATH, "
            "SKILLWIRE_STORE in the environment works too.",
        ),
        text("--channel NAME", "The registry's channel. The default is stable. Needs a store."),
        text("--oauth-issuer URL", "Accept access tokens of this issuer. Needs a store and --http."),
        text("--oauth-audience URL", "The audience of those tokens: the URL of this registry."),
        text("--oauth-groups-claim NAME", "The claim with a user's groups. The default is groups."),
        *CONNECTION_OPTIONS,
        integer(
            "--max-body-bytes N",
            "Accept HTTP requests of at most N bytes.",
            default=16 * 1024 * 1024,
            least=1,
        ),
        integer(
            "--max-sessions N",
            "Keep at most N HTTP sessions of the 2025 protocol revisions.",
            default=10_000,
            least=1,
        ),
        seconds(
            "--session-timeout SECONDS", "End a session after this time without a request.", default=1800
        ),
        seconds(
            "--head-timeout SECONDS",
            "Close an HTTP connection that has not sent the head of a request by then.",
            default=10,
        ),
        seconds(
            "--body-timeout SECONDS",
            "Refuse an HTTP request whose body has not arrived by then.",
            default=60,
        ),
        seconds(
            "--write-timeout SECONDS",
            "Cut off a client that takes less than 64 KiB of a response in this time.",
            default=30,
        ),
        seconds(
            "--idle-timeout SECONDS",
            "Close an HTTP connection after this time without a request.",
            default=75,
            least=1,
        ),
        flag("--fast-path", "Respond to common requests without the SDK.", default=True),
        flag(
            "--scan-cache",
            "Cache digests, so that the next start reads only what changed.",
            default=True,
            hidden=("--scan-index", "--no-scan-index"),
        ),
        choice(
            "--index",
            "The draft whose format skill://index.json has, for clients of earlier drafts.",
            choices={"april-2026": "d2", "early-june-2026": "d3", "june-2026": "d4", "off": "off"},
            default="d2",
        ),
        flag("--manifests", "Serve skill://NAME/_manifest, for FastMCP clients.", default=True),
        flag("--prompt-xml", "Serve the catalog at skill://prompt-xml.", default=True),
        flag("--list-legacy", "List the index, the manifests and the catalog among the resources."),
        flag(
            "--list-files",
            "List the supporting files among the resources, for hosts that look for them there.",
        ),
        json=False,
        examples={
            "skillwire serve ./skills": "one client, over stdio",
            "skillwire serve ./skills --http 127.0.0.1:8000": "any number of clients, over HTTP",
            "skillwire serve acme=./skills ~/more-skills": "two directories, one with a prefix",
            "skillwire serve ./skills --print-config cursor": "what to add to a client",
            "skillwire serve git+https://git.example/skills#v1.2 ./local": "a repository at a tag, too",
            "skillwire serve --locked skillwire.lock": "exactly the pinned set",
        },
    ),
    command(
        "lint",
        "lint:lint",
        "Check skills for errors and get advice on them\n\n"
        "A skill with an error is not served. A warning names the hosts that refuse the skill. Turn "
        "a rule off with --ignore, or for one skill by a comment in its SKILL.md: # skillwire-lint-ignore: "
        "RULE. Exits with 1 if there are errors or warnings, and with 0 if not.",
        Argument(
            "paths",
            "PATH",
            "A skill, a directory of skills at any depth, or a SKILL.md file. "
            "By default the working directory.",
            kind="path",
            required=False,
            many=True,
            completion="file",
        ),
        flag("--strict", "Exit with 1 for advice as well."),
        flag("--errors-only", "Report only errors."),
        text("--ignore RULE", "Skip this rule. Repeatable.", many=True),
        flag("--all", "List every occurrence of every rule.", field="show_all"),
        flag("--fix", "Fix what can be fixed without guessing, and show the changes as a diff."),
        flag("--diff", "Show what --fix would change, and change nothing."),
        flag("--watch", "Check again after every change."),
        choice(
            "--format text|json|github|sarif",
            "Format of the report. github annotates pull requests, sarif is for code scanning.",
            default="text",
            field="output",
        ),
        examples={
            "skillwire lint ./skills": "every issue of every skill, by rule, with its fix",
            "skillwire lint ./skills --fix": "repair quotes, names and line endings",
            "skillwire lint ./skills --strict --format github": "for continuous integration",
        },
    ),
    command(
        "new",
        "lint:new",
        "Start a new skill\n\n"
        "Writes a SKILL.md that passes lint, for you to fill in. Never overwrites an existing one.",
        Argument(
            "path",
            "PATH",
            "The directory to create. Its name is the name of the skill.",
            kind="path",
            completion="directory",
        ),
        text("--description TEXT", "What the skill does and when to use it."),
        json=False,
        examples={"skillwire new skills/release-notes": "a skill called release-notes"},
    ),
    command(
        "verify",
        "verify:verify",
        "Check that a server conforms to the Skills extension\n\n"
        "Also checks the skills that a site lists under /.well-known/agent-skills/: every artifact is "
        "fetched and compared with its digest. Exits with 0 if it conforms, 1 if it does not, and 2 if it "
        "could not be checked.",
        Argument(
            "target",
            "URL | NAME | -- COMMAND",
            "A server's URL, the name of a configured one, or -- and a command that starts one. "
            "A site's URL, such as https://example.org, checks its index of skills.",
            required=False,
            many=True,
            completion="command",
        ),
        choice(
            "--as auto|server|site",
            "Treat the URL as an MCP server or as a site. With auto, a URL without a path is a site if "
            "it has an index of skills.",
            default="auto",
            field="kind",
        ),
        choice(
            "--protocol both|2025-11-25|2026-07-28",
            "The protocol revisions to test.",
            default="both",
            field="protocol",
            hidden=("--era",),
        ),
        integer("--max-skills N", "Read the files of at most N skills.", default=200, least=1),
        integer(
            "--max-bytes N",
            "Download at most N bytes per protocol revision.",
            least=1,
            default=256 * 1024 * 1024,
        ),
        timeout("Wait this long for each response.", default=30),
        text(
            "--header 'NAME: VALUE'",
            "Send this HTTP header. NAME=VALUE works too. Repeatable.",
            many=True,
        ),
        text("--token-env VARIABLE", "Send the bearer token in this environment variable."),
        text("--ignore RULE", "Skip a rule, or all rules of a requirement. Repeatable.", many=True),
        text(
            "--only RULE",
            "Report this rule, or the rules of this requirement, and no other. Repeatable.",
            many=True,
        ),
        choice(
            "--fail-on must|should|advice",
            "Exit with 1 for findings of this level or more serious.",
            default="should",
            field="fail_on",
        ),
        path("--baseline FILE", "Do not fail for findings that this earlier --json report has."),
        path("--trace FILE", "Write every message to this file, without secrets."),
        path("--junit FILE", "Also write a JUnit report to this file."),
        flag("--rules", "List the rules and exit."),
        examples={
            "skillwire verify https://example.org/mcp": "a server that is running",
            "skillwire verify -- node server.mjs": "a server that the command starts over stdio",
            "skillwire verify docs": "the configured server called docs",
            "skillwire verify https://example.org": "the index of a site, and every digest in it",
            "skillwire verify --rules": "the list of checks",
        },
    ),
)
