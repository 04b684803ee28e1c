"""The commands that operate servers, a gateway, and what Skillwire stores on this machine."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, number, path, seldom, text, texts, timeout
from skillwire.cli.commands import ON_SERVER, action
from skillwire.cli.commands.publish import CLIENTS, CONNECTION_OPTIONS, HTTP_OPTIONS, LISTING_OPTIONS

_NAMES: Final = Argument(
    "names",
    "NAME",
    "The name of a skill as `skillwire list` shows it, or its URI.",
    many=True,
    completion="skill",
)

_CONFIG: Final = (
    command(
        "config paths",
        "config:paths",
        "Show where configuration, approvals and caches are stored\n\n"
        "With --delete, deletes all of it but the configuration: approvals, trust in projects, logins, what "
        "is known of installations, and caches. Installed folders and lock files stay. Nothing else should "
        "run meanwhile.",
        flag("--delete", "Delete everything that is stored, except configuration files."),
        flag("--yes -y", "Delete without being asked."),
        examples={
            "skillwire config": "all of them",
            "skillwire config paths --delete": "start from nothing",
        },
    ),
    command(
        "config agents",
        "config:agents",
        "List the agents that read skills from folders",
        flag("--all", "Include those that are not found here.", field="everyone"),
        flag("--user", "Their folders for every project, instead of this project's."),
        examples={
            "skillwire config agents": "those that are here",
            "skillwire config agents --all": "every agent that is known",
        },
    ),
    command(
        "config disable",
        "config:disable",
        "Leave skills out: they are not listed or loaded\n\n"
        "Recorded as `disabled` in your skillwire.toml. `skillwire list --all` shows them.",
        _NAMES,
        flag("--project", "Record it in the project's skillwire.toml instead of the user's."),
        ON_SERVER,
        host=True,
        examples={
            "skillwire config disable refunds": "everywhere",
            "skillwire config disable shop/refunds --project": "in this project",
        },
    ),
    command(
        "config enable",
        "config:enable",
        "Use disabled skills again",
        _NAMES,
        ON_SERVER,
        host=True,
        examples={"skillwire config enable refunds": "in every file that disables it"},
    ),
    command(
        "config cache",
        "config:cache",
        "List or delete cached files; approvals stay",
        flag("--clear", "Delete them. They are fetched and verified again when needed."),
        text("--on SERVER", "The files of this server only.", completion="server"),
        examples={
            "skillwire config cache": "all cached files, by server",
            "skillwire config cache --clear --on docs": "those of one server",
        },
    ),
    command(
        "config completion",
        "config:completion",
        "Print a shell script that completes commands, options and names",
        Argument("shell", "SHELL", "bash, zsh or fish.", choices=("bash", "zsh", "fish")),
        json=False,
        examples={
            "skillwire config completion bash": "in ~/.bashrc: source <(skillwire config completion bash)",
            "skillwire config completion zsh": "in ~/.zshrc: source <(skillwire config completion zsh)",
            "skillwire config completion fish": "save as ~/.config/fish/completions/skillwire.fish",
        },
    ),
    command(
        "doctor",
        "doctor:doctor",
        "Check the installation, configuration, servers and stored files\n\n"
        "Every finding says what to do about it. Exits with 4 if something does not work.",
        flag("--no-servers", "Do not connect to servers."),
        timeout("Wait this long for each server.", default=10),
        examples={
            "skillwire doctor": "everything",
            "skillwire doctor --no-servers": "without starting or connecting to a server",
        },
    ),
)


_USER: Final = flag("--user", "Use the user's skillwire.toml instead of the project's.")
_VARIABLES: Final = flag(
    "--use-variables", "Write the name of an environment variable in place of each secret."
)
_SERVER: Final = Argument("name", "NAME", "The name of a server.", completion="server")
_LOGIN_SERVER: Final = Argument("name", "NAME", "The name of a server, or its URL.", completion="server")

_SERVERS: Final = (
    command(
        "trust",
        "trust:trust",
        "Review and trust a project: its servers, directories and skills\n\n"
        "Files such as ./skillwire.toml and .mcp.json may come from somebody else, and so may the skills "
        "in ./.agents/skills. Until you trust them, their servers are not started, their directories are not "
        "read, and each skill needs an approval. Everything is shown first and trusted exactly as shown: "
        "whatever changes is no longer trusted. It never grants tools or code. It asks on your terminal, and "
        "never inside an agent; a script names the file that it means with --config.",
        Argument(
            "directory",
            "DIR",
            "The project. By default the working directory.",
            kind="path",
            required=False,
            completion="directory",
        ),
        flag("--list", "List what you trust, in all projects.", field="listing"),
        flag("--revoke", "Stop trusting this project."),
        examples={
            "skillwire trust": "see what would be started and loaded, then decide",
            "skillwire trust --list": "what you trust, and what changed since",
            "skillwire trust --revoke ~/old-project": "files and skills of a project",
        },
    ),
    command(
        "servers list",
        "servers:list_servers",
        "List the servers of your configuration",
        flag("--check", "Connect to each server and show its status. Exits with 4 if one fails."),
        timeout("Wait this long for each server. Needs --check."),
        path("--config FILE", "Read this file instead of the user's and the project's skillwire.toml."),
        text("--profile NAME", "Use this profile of the configuration."),
        examples={
            "skillwire servers": "what is configured",
            "skillwire servers list --check": "which servers respond, and how many skills they have",
        },
    ),
    command(
        "servers show",
        "server_view:show_server",
        "Show one server: what it declares, its protocol, skills, files and problems\n\n"
        "Connects to that server and to no other. Exits with 4 if it cannot be reached.",
        _SERVER,
        host=True,
        examples={
            "skillwire servers show docs": "a server of your configuration",
            "skillwire servers show docs --server docs=https://docs.example/mcp": "any other server",
        },
    ),
    command(
        "servers add",
        "servers:add",
        "Add a server to skillwire.toml\n\n"
        "Connects to it once, and says what it has. The rest of the file is left unchanged. Write "
        "${NAME} for an environment variable, to keep secrets out of the file.",
        Argument("name", "NAME", "A name for the server."),
        Argument(
            "place",
            "URL | -- COMMAND",
            "Give the URL of the server, or -- and the command that starts it.",
            many=True,
            completion="command",
            marked="command",
        ),
        _USER,
        texts("--header NAME=VALUE", "Send this HTTP header."),
        text("--token-env VARIABLE", "Send the bearer token in this environment variable."),
        texts("--env NAME=VALUE", "Set this variable for the command."),
        _VARIABLES,
        choice("--approval prompt|pinned|always|never", "Approval mode for the server's skills."),
        flag(
            "--replace",
            "Correct the entry of this name. Its approvals stay if the address is the same.",
            field="is_replaced",
        ),
        flag("--check", "Connect to the server once, to see whether it answers.", default=True),
        examples={
            "skillwire servers add docs https://docs.example/mcp --replace": "another address for an entry",
            "skillwire servers add docs https://docs.example/mcp --token-env DOCS_TOKEN": "a remote server",
            "skillwire servers add tools --user -- npx -y @example/tools": "a command, for all your projects",
        },
    ),
    command(
        "servers remove",
        "servers:remove",
        "Remove a server from skillwire.toml, with its cached files and approvals",
        _SERVER,
        _USER,
        examples={"skillwire servers remove docs": "from the project's file, or else the user's"},
    ),
    command(
        "servers login",
        "login:login",
        "Sign in to a remote server with OAuth\n\n"
        "Opens a browser and waits. Without one, for example over SSH, it prints an address to open "
        "anywhere and asks for the address that the browser is sent to. Tokens are stored in the system "
        "keyring, or in a file that only you can read, and are renewed when they expire.",
        _LOGIN_SERVER,
        flag("--paste", "Use a browser on another machine, and paste the address that it is sent to."),
        text(
            "--client-id ID",
            "Use this OAuth client, for services that do not register clients automatically.",
        ),
        text("--client-secret-env VARIABLE", "The secret of that client is in this environment variable."),
        number(
            "--port N",
            "Let the browser return to this port of 127.0.0.1. 0 picks a free one.",
            default=0,
            most=65535,
        ),
        timeout("Wait this long for the browser.", default=300, least=1),
        examples={
            "skillwire servers login docs": "in your browser",
            "skillwire servers login docs --paste": "on a machine without one",
        },
    ),
    command(
        "servers logout",
        "login:logout",
        "Revoke and delete the tokens of a login",
        _LOGIN_SERVER,
        examples={"skillwire servers logout docs": "until you sign in again"},
    ),
    command(
        "servers enable",
        "servers:enable",
        "Use the skills of a server again",
        _SERVER,
        examples={"skillwire servers enable docs": "in every file that disables it"},
    ),
    command(
        "servers disable",
        "servers:disable",
        "Stop using the skills of a server, and keep its settings and approvals\n\n"
        "It is not started or connected until you enable it.",
        _SERVER,
        flag("--project", "Disable it in the project's skillwire.toml only."),
        examples={
            "skillwire servers disable docs": "in the file that has it",
            "skillwire servers disable docs --project": "in this project",
        },
    ),
    command(
        "servers import",
        "servers:import_servers",
        "Import the servers of your other MCP clients\n\n"
        "Reads the configuration of Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini CLI, "
        "Goose, Windsurf, Zed, Copilot CLI, opencode and Wayland. What is disabled or restricted there "
        "stays so. Nothing is started, and nothing is written without --write.",
        flag("--write", "Write the servers to skillwire.toml."),
        _VARIABLES,
        flag("--project", "Use the project's skillwire.toml instead of the user's."),
        texts("--only NAME", "Import this server only."),
        examples={
            "skillwire servers import": "what would be added",
            "skillwire servers import --only github --write": "add one of them",
        },
    ),
)


_GATEWAY: Final = (
    command(
        "gateway run",
        "gateway:run",
        "Serve the skills of all your servers and folders as one MCP server\n\n"
        "The servers and folders are those of skillwire.toml. Every skill is verified before it is "
        "passed on, and loads only after a yes: the client asks the user if it can; otherwise the model is "
        "told that its user must act, and the log names the command. URIs are "
        "skill://SERVER/PATH/NAME/SKILL.md.",
        choice(
            "--approval required|listed|locked",
            "Who approves skills: each caller (the default), the host that uses it, or a lock.",
        ),
        path("--locked FILE", "Serve only what this skillwire.lock names."),
        *HTTP_OPTIONS,
        path(
            "--tokens FILE",
            "The callers, each with a token, approvals and permissions of their own. "
            "It is read again when it changes. Add callers with `skillwire gateway callers add`.",
        ),
        path(
            "--token-file FILE",
            "Require a bearer token from this file: NAME TOKEN on each line, or one token.",
        ),
        flag(
            "--run",
            "Offer a tool that runs scripts of skills in a sandbox: over stdio those that you granted with "
            "`skillwire run`, over HTTP those that `run` of the callers file names.",
        ),
        flag("--ui", "Also serve the review page at this address, and send callers to it to decide."),
        text("--ui-url URL", "Where browsers reach the page, if a proxy is in front of it."),
        path(
            "--audit FILE",
            "Append a line for each list, entry, load, read, approval and refusal. SIGHUP reopens it.",
        ),
        text(
            "--store URL",
            "Keep approvals and the audit log in this registry, shared with other gateways.",
        ),
        *CONNECTION_OPTIONS,
        *seldom(
            text(
                "--name NAME",
                "The name that the gateway introduces itself by. The default is skillwire-gateway.",
            ),
            text(
                "--instructions TEXT | @FILE",
                "What clients tell their model about the gateway, instead of the default text.",
            ),
            number("--ttl SECONDS", "Longest cache lifetime of responses.", default=60, least=0),
        ),
        *LISTING_OPTIONS,
        host=True,
        json=False,
        examples={
            "skillwire gateway": "one client, over stdio",
            "skillwire gateway --http 127.0.0.1:8100 --tokens callers.toml": "a team, over HTTP",
            "skillwire gateway --locked skillwire.lock": "nothing but what the lock names",
        },
    ),
    command(
        "gateway install",
        "gateway_install:install",
        "Add the gateway to the configuration of a client\n\n"
        "Writes one entry, called skillwire, and saves the previous file beside it. The rest of the "
        "file is left unchanged.",
        Argument("client", "CLIENT", f"One of {', '.join(CLIENTS)}.", choices=CLIENTS),
        text("--url URL", "Reach a gateway that runs there, instead of starting one."),
        text(
            "--token-env VARIABLE",
            "The environment variable of the client that has the bearer token. Needs --url.",
        ),
        flag("--dry-run", "Show what would be written, and write nothing."),
        examples={
            "skillwire gateway install claude-desktop": "then restart Claude Desktop",
            "skillwire gateway install cursor --dry-run": "see the change first",
        },
    ),
    command(
        "gateway uninstall",
        "gateway_install:uninstall",
        "Remove the gateway from the configuration of a client\n\n"
        "Shows the entry that `gateway install` wrote, asks, and removes it. The previous file is saved "
        "beside it. The rest of the file is left unchanged. Without CLIENT, the entry is removed from every "
        "client that has it.",
        Argument(
            "clients", "CLIENT", f"One of {', '.join(CLIENTS)}.", choices=CLIENTS, many=True, required=False
        ),
        flag("--yes -y", "Remove it without asking."),
        flag("--dry-run", "Show what would be removed, and write nothing."),
        examples={
            "skillwire gateway uninstall cursor": "show the entry, ask, and remove it",
            "skillwire gateway uninstall --dry-run": "which clients have it",
        },
    ),
    command(
        "gateway callers",
        "gateway:callers",
        "List, add or remove the callers of a gateway\n\n"
        "The token of a new caller is printed once; the file stores only its digest. A running gateway "
        "follows within a second: it accepts a new caller, refuses the token of a removed one, and ends "
        "their streams.",
        action("list", "add", "remove"),
        Argument("name", "NAME", "The name of a caller.", required=False),
        path("--tokens FILE", "The file of callers."),
        texts("--label SERVER", "Show a new caller this server only."),
        texts("--include PATTERN", "Show them only skills whose path matches, such as 'docs/*'."),
        texts("--exclude PATTERN", "Do not show them skills whose path matches."),
        flag("--replace", "Give an existing caller a new token."),
        examples={
            "skillwire gateway callers --tokens callers.toml": "who may use it, and what they may see",
            "skillwire gateway callers add alice --tokens callers.toml --label docs": "docs alone",
            "skillwire gateway callers remove alice --tokens callers.toml": "their token ends",
        },
    ),
)

COMMANDS: Final = (*_CONFIG, *_SERVERS, *_GATEWAY)
