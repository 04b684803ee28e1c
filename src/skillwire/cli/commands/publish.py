"""The commands of people who write and publish skills, and the options that `serve` and `gateway` share."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, number, path, seldom, text, texts, timeout
from skillwire.cli.commands import JUNIT, MODEL, ON_SERVER, PASSWORD, SARIF

CLIENTS: Final = (
    "claude-code",
    "claude-desktop",
    "cline",
    "codex",
    "cursor",
    "gemini-cli",
    "github-copilot",
    "goose",
    "junie",
    "opencode",
    "qwen-code",
    "vscode",
    "windsurf",
    "zed",
)
"""The clients of `--print-config` and `gateway install`: those of `skillwire.clients` that a server can
be added to. They are written out here, so that no command has to import the table in order to start."""
HTTP_OPTIONS: Final = (
    text(
        "--http HOST:PORT",
        "Serve Streamable HTTP at /mcp instead of stdio. "
        "A port alone means 127.0.0.1; port 0 picks a free one.",
    ),
    texts("--allow-host NAME", "Accept this Host and Origin too."),
    *seldom(
        flag("--unsafe-no-auth", "Listen on a public address without a token."),
        text(
            "--metrics HOST:PORT",
            "Serve /metrics and the health in detail at this address, for everybody who can reach it.",
        ),
        flag("--access-log", "Log each HTTP request to standard error."),
        choice(
            "--log-format text|json", "Write the log as text or as one JSON object per line.", default="text"
        ),
    ),
)
"""The options of every command that serves over HTTP."""
CONNECTION_OPTIONS: Final = seldom(
    flag("--stateless", "Stateless HTTP: no sessions."),
    number(
        "--rate N",
        "Requests a minute for each caller with a token; 0 means no limit.",
        limit="http_requests_per_minute",
        least=0,
    ),
    number(
        "--max-requests N",
        "Open requests for each caller with a token, streams included.",
        limit="http_requests_at_once",
        least=1,
    ),
    number(
        "--max-failed-tokens N",
        "Tokens that are not valid from one address a minute; 0 means no limit.",
        limit="http_failed_credentials_per_minute",
        least=0,
    ),
    number(
        "--max-connections N",
        "Accept at most N HTTP connections.",
        limit="http_connections",
        least=1,
    ),
    number(
        "--max-connections-per-address N",
        "Accept at most N HTTP connections from one address.",
        limit="http_connections_per_address",
        least=1,
    ),
    number(
        "--max-body-bytes N",
        "Accept HTTP requests of at most N bytes.",
        limit="http_body_bytes",
        least=1,
    ),
    number(
        "--max-sessions N",
        "Keep at most N HTTP sessions of the 2025 protocol revisions.",
        limit="sessions",
        least=1,
    ),
    number(
        "--max-views N",
        "Keep servers for at most N callers or sets of permissions.",
        limit="http_views",
        least=1,
    ),
    number(
        "--session-timeout SECONDS",
        "End a session after this time without a request.",
        limit="session_idle_seconds",
    ),
    number(
        "--head-timeout SECONDS",
        "Close an HTTP connection that has not sent the head of a request by then.",
        limit="http_head_seconds",
    ),
    number(
        "--body-timeout SECONDS",
        "Refuse an HTTP request whose body has not arrived by then.",
        limit="http_body_seconds",
    ),
    number(
        "--write-timeout SECONDS",
        "Cut off a client that takes less than 64 KiB of a response in this time.",
        limit="http_write_seconds",
    ),
    number(
        "--idle-timeout SECONDS",
        "Close an HTTP connection after this time without a request.",
        limit="http_idle_seconds",
        least=1,
    ),
)
"""Sessions, connections and their limits, of every command that serves over HTTP."""
LIMIT_FIELDS: Final = {option.field: option.limit for option in CONNECTION_OPTIONS if option.limit}
"""The field of `Limits` that each of these options sets."""
LISTING_OPTIONS: Final = seldom(
    number("--page-size N", "Skills per page of a listing.", default=100, least=1, most=1000),
    choice(
        "--tools auto|always|never",
        "Offer load_skill and related tools. auto hides them from clients that support the extension.",
        default="auto",
    ),
    flag("--prompts", "Offer each skill as a prompt, which clients show as a slash command.", default=True),
)
"""How every command that serves skills presents them to clients."""


TOKEN_VARIABLE: Final = "SKILLWIRE_TOKEN"  # noqa: S105 - the name of a variable, not a token

_PROFILE: Final = choice(
    "--profile chatgpt|gemini",
    "Also check what this consumer of skills demands beyond the format.",
    field="profile",
)

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
        flag(
            "--share",
            "Serve to colleagues: with a token, made if there is none, at an address that others reach. "
            "Prints what they have to do.",
        ),
        *seldom(
            flag("--yes -y", "With --share: do not ask before a token is sent in the clear."),
            path(
                "--cert FILE",
                "Serve https with this certificate and its chain, in PEM. Needs --http and --key.",
            ),
            path("--key FILE", "The private key of the certificate, in PEM."),
            text("--url URL", "The URL that others reach this server by, for --print-config and --share."),
        ),
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
        *seldom(
            flag(
                "--follow-links",
                "Follow links anywhere. By default links may only lead into the given directories, your "
                "skill folders, and the repository or project that contains a directory.",
            ),
            flag("--allow-oversize", "Serve skills of over 512 files or 16 MiB, which hosts may refuse."),
            texts("--unlisted GLOB", "Serve the skills whose path matches, but do not list them."),
        ),
        texts("--only NAME", "Serve the skill of this name and no others."),
        *seldom(
            flag("--query", "Let clients that declare dev.skillwire/query search with skills/list."),
        ),
        text("--name NAME", "The name that the server introduces itself by. The default is skillwire."),
        text("--instructions TEXT | @FILE", "What clients tell their model about this server."),
        *LISTING_OPTIONS,
        *seldom(
            number("--ttl SECONDS", "Cache lifetime of responses.", default=60, least=0),
            choice(
                "--cache-scope public|private",
                "Cache scope of responses. Private by default when there is a token.",
            ),
        ),
        path("--locked FILE", "Serve exactly what this skillwire.lock pins."),
        *seldom(
            flag("--installed", "Serve the skills in installed Python packages."),
            flag(
                "--well-known",
                "Also serve the skills as archives under /.well-known/agent-skills/. Needs --http.",
            ),
            number(
                "--refresh SECONDS",
                "Fetch repositories and sites again after this time, or on SIGHUP.",
                default=300,
                least=1,
            ),
        ),
        text(
            "--store URL",
            "Serve a registry: postgresql://USER@HOST/NAME or sqlite:///FILE. Without a PATH, "
            "SKILLWIRE_STORE in the environment works too.",
        ),
        *seldom(
            text("--channel NAME", "The registry's channel. The default is stable. Needs a store."),
            text("--oauth-issuer URL", "Accept access tokens of this issuer. Needs a store and --http."),
            text("--oauth-audience URL", "The audience of those tokens: the URL of this registry."),
            text("--oauth-groups-claim NAME", "The claim with a user's groups. The default is groups."),
        ),
        *CONNECTION_OPTIONS,
        *seldom(
            flag("--fast-path", "Respond to common requests without the SDK.", default=True),
            flag(
                "--scan-cache",
                "Cache digests, so that the next start reads only what changed.",
                default=True,
            ),
            choice(
                "--index april-2026|early-june-2026|june-2026|off",
                "The draft whose format skill://index.json has, for clients of earlier drafts.",
                default="april-2026",
            ),
            flag("--manifests", "Serve skill://NAME/_manifest, for FastMCP clients.", default=True),
            flag("--prompt-xml", "Serve the catalog at skill://prompt-xml.", default=True),
            flag(
                "--reference",
                "List what the reference server of skills as resources lists: each SKILL.md, its manifest, "
                "and the catalog.",
            ),
            flag("--list-legacy", "List the index, the manifests and the catalog among the resources."),
            flag(
                "--list-files",
                "List the supporting files among the resources, for hosts that look for them there.",
            ),
            flag(
                "--every-tool",
                "Offer the tools for searching and for listing files however few skills there are.",
            ),
        ),
        json=False,
        examples={
            "skillwire serve ./skills": "one client, over stdio",
            "skillwire serve ./skills --http 127.0.0.1:8000": "any number of clients, over HTTP",
            "skillwire serve acme=./skills ~/more-skills": "two directories, one with a prefix",
            "skillwire serve ./skills --print-config cursor": "what to add to a client",
            "skillwire serve ./skills --share": "for colleagues, with a token",
            "skillwire serve git+https://git.example/skills#v1.2 ./local": "a repository at a tag, too",
            "skillwire serve --locked skillwire.lock": "exactly the pinned set",
        },
    ),
    command(
        "lint",
        "authoring:lint",
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
        texts("--ignore RULE", "Skip this rule."),
        flag("--all", "List every occurrence of every rule.", field="show_all"),
        flag("--fix", "Fix what can be fixed without guessing, and show the changes as a diff."),
        flag("--diff", "Show what --fix would change, and change nothing."),
        flag(
            "--rename-directories",
            "With --fix, also rename the directory of a skill whose name is another.",
        ),
        flag(
            "--unsafe",
            "With --fix, also write a missing frontmatter, from the directory and the first heading.",
        ),
        flag("--watch", "Check again after every change."),
        _PROFILE,
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
        "eval",
        "evals:run",
        "Measure whether the right skill is found for questions\n\n"
        "Questions are read from evals/evals.json and trigger_eval.json in the skills, and from the files "
        "that --questions names. They are answered by the search of hosts and servers, without a model. "
        "Exits with 1 if --min-top1 or --baseline is not met.",
        Argument(
            "paths",
            "PATH",
            "A directory of skills. By default the working directory.",
            kind="path",
            required=False,
            many=True,
            completion="directory",
        ),
        path(
            "--questions FILE",
            "Also ask the questions of this file, .jsonl, .json or .csv: a question and the name of a skill, "
            "or none, in each row. Repeatable.",
            many=True,
        ),
        number("--budget CHARS", "Report what a catalog of this size cuts. The default is 16,000."),
        flag("--descriptions", "Search names and descriptions alone, as hosts do at first."),
        flag("--semantic", "Also search by the meaning of descriptions. Needs the extra semantic."),
        number("--min-top1 PERCENT", "Exit with 1 if fewer questions find the right skill first.", most=100),
        path("--baseline FILE", "Exit with 1 if more questions are lost than gained since it was saved."),
        flag("--save", "Write the results to the baseline instead of comparing them."),
        examples={
            "skillwire eval ./skills": "with the questions beside the skills",
            "skillwire eval ./skills --questions q.jsonl --budget 8000": "questions of your own",
            "skillwire eval ./skills --baseline eval.json": "in continuous integration",
        },
    ),
    command(
        "eval run",
        "evals:run_scenarios",
        "Measure whether a model does a task better with a skill\n\n"
        "A scenario is a TOML file, or a folder with a scenario.toml: a task, servers, the tools that may be "
        "called, and criteria. The servers that it names are started. It runs with the skill and without it, "
        "as often as --repeat says, in sessions of their own; skills count as approved there. Exits with 1 "
        "if --min-pass is not met, and with 4 if the model could not be asked.",
        Argument(
            "paths",
            "SCENARIO",
            "A scenario, as a file or a folder.",
            kind="path",
            many=True,
            completion="file",
        ),
        MODEL,
        number(
            "--repeat N", "Run it this often with the skill and without it.", default=5, most=1000, least=1
        ),
        flag("--control", "Also run it without the skill.", default=True),
        text("--style STYLE", "Emulate another host: claude, codex, gemini, goose or wayland."),
        number("--min-pass PERCENT", "Exit with 1 if fewer runs with the skill pass.", most=100),
        JUNIT,
        path("--html FILE", "Write a page with a plot to this file."),
        examples={
            "skillwire eval run examples/scenarios/pr-review --model anthropic:NAME": "five of each",
            "skillwire eval run ./scenario.toml --repeat 20 --html results.html": "with a page",
        },
    ),
    command(
        "new",
        "authoring:new",
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
        ),
        number("--max-skills N", "Read the files of at most N skills.", default=200, least=1),
        number(
            "--max-bytes N",
            "Download at most N bytes per protocol revision.",
            least=1,
            default=256 * 1024 * 1024,
        ),
        timeout("Wait this long for each response.", default=30),
        texts("--header 'NAME: VALUE'", "Send this HTTP header. NAME=VALUE works too."),
        text("--token-env VARIABLE", "Send the bearer token in this environment variable."),
        texts("--ignore RULE", "Skip a rule, or all rules of a requirement."),
        texts("--only RULE", "Report this rule, or the rules of this requirement, and no other."),
        choice(
            "--fail-on must|should|advice",
            "Exit with 1 for findings of this level or more serious.",
            default="should",
            field="fail_on",
        ),
        path("--baseline FILE", "Do not fail for findings that this earlier --json report has."),
        path("--trace FILE", "Write every message to this file, without secrets."),
        JUNIT,
        SARIF,
        flag(
            "--quick",
            "Check the newest protocol revision alone, and ask nothing twice: while you write a server.",
        ),
        number(
            "--repeat N",
            "Check N times, and say in how many runs each finding was seen. For servers that are unstable.",
            default=1,
            least=1,
            most=1000,
        ),
        _PROFILE,
        flag("--rules", "List the rules and exit."),
        examples={
            "skillwire verify https://example.org/mcp": "a server that is running",
            "skillwire verify -- node server.mjs": "a server that the command starts over stdio",
            "skillwire verify docs": "the configured server called docs",
            "skillwire verify https://example.org": "the index of a site, and every digest in it",
            "skillwire verify --profile chatgpt docs": "also what ChatGPT's import of skills demands",
            "skillwire verify --rules": "the list of checks",
        },
    ),
    command(
        "sign",
        "authoring:sign",
        "Sign a skill as its publisher, or check who signed one\n\n"
        "Writes skill.oms.sig (OpenSSF Model Signing) into the folder. The signature covers every "
        "file of the skill, so it can be checked from a server's listing before anything else is fetched. "
        "A skill with lint errors is not signed. Sign again after every change. With --check it exits with 0 "
        "only if a known publisher signed exactly the files that the skill has now. Publishers are those of "
        "skillwire.toml; --key and --root name one here. A signature says who published a skill, not whether "
        "it is safe to use. An organization's policy is signed too: policy.toml.sig is written beside it.",
        Argument(
            "name",
            "DIR|SKILL",
            "The directory of a skill, or a policy; with --check, also a skill of your servers.",
            required=False,
            completion="directory",
        ),
        path("--key FILE", "The private key, in PEM; with --check, a public key to accept."),
        path("--new-key FILE", "Create a key: the private part in FILE, the public part beside it."),
        flag("--check", "Check the signature, and say who signed which files."),
        path("--cert FILE", "The signer's certificate and its chain, in PEM."),
        PASSWORD,
        flag("--keyless", "Sign with Sigstore instead of a key. Needs the extra `sigstore`."),
        text("--publisher NAME", "With --check: accept this publisher only."),
        path("--root FILE", "With --check: accept certificates that lead to this root certificate, in PEM."),
        ON_SERVER,
        host=True,
        examples={
            "skillwire sign --new-key acme.pem": "once: acme.pem stays secret, acme.pub goes to your users",
            "skillwire sign ./skills/pdf --key acme.pem": "sign a skill with it",
            "skillwire sign --check ./skills/pdf --key acme.pub": "a directory, against one public key",
            "skillwire sign --check docs/pdf --publisher acme": "a skill of the server docs",
        },
    ),
)
