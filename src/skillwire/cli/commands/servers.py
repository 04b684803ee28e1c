"""The commands that manage the MCP servers of the configuration."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, integer, path, text, texts, timeout

_USER: Final = flag("--user", "Use the user's skillwire.toml instead of the project's.")
_VARIABLES: Final = flag(
    "--use-variables", "Write the name of an environment variable in place of each secret."
)
_SERVER: Final = Argument("name", "NAME", "The name of a server.", completion="server")
_LOGIN_SERVER: Final = Argument("name", "NAME", "The name of a server, or its URL.", completion="server")

COMMANDS: Final = (
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
        integer(
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
