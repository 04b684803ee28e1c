"""The commands that manage the MCP servers of the configuration."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import (
    JSON,
    Argument,
    Command,
    Group,
    choice,
    flag,
    integer,
    path,
    seconds,
    text,
)

_USER: Final = flag("--user", help="Use the user's skillwire.toml instead of the project's.")
_VARIABLES: Final = flag(
    "--use-variables", help="Write the name of an environment variable in place of each secret."
)
_SERVER: Final = Argument(field="name", metavar="NAME", help="The name of a server.", completion="server")
_LOGIN_SERVER: Final = Argument(
    field="name", metavar="NAME", help="The name of a server, or its URL.", completion="server"
)

GROUPS: Final = (
    Group(name="servers", summary="Manage the MCP servers that skills come from", default="servers list"),
)
_TRUST: Final = Command(
    name="trust",
    summary="Review and trust a project: its servers, directories and skills",
    about="Files such as ./skillwire.toml and .mcp.json may come from somebody else, and so may the skills "
    "in ./.agents/skills. Until you trust them, their servers are not started, their directories are not "
    "read, and each skill needs an approval. Everything is shown first and trusted exactly as it was shown: "
    "what changes is not trusted any more. Tools and code are never granted by it.",
    run="trust:trust",
    arguments=(
        Argument(
            field="directory",
            metavar="DIR",
            help="The project. By default the working directory.",
            kind="path",
            required=False,
            completion="directory",
        ),
    ),
    options=(
        text("--digest", metavar="SHA256", help="Trust it without asking, if it is what this digest names."),
        flag("--yes", "-y", help="Trust what is there without asking."),
        flag("--list", help="List what you trust, of all projects.", field="listing"),
        flag("--revoke", help="Stop trusting this project.", hidden=("--forget",)),
        JSON,
    ),
    examples=(
        ("skillwire trust", "see what would be started and loaded, then decide"),
        ("skillwire trust --digest sha256:4f6e…", "in a script, after somebody looked at it"),
        ("skillwire trust --list", "what you trust, and what changed since"),
        ("skillwire trust --revoke ~/old-project", "files and skills of a project"),
    ),
)

COMMANDS: Final = (
    _TRUST,
    _TRUST._replace(
        name="servers trust",
        summary="The same as `skillwire trust`",
        about="",
        examples=(("skillwire servers trust", "see what would be started and loaded, then decide"),),
    ),
    Command(
        name="servers list",
        summary="List the servers of your configuration",
        run="servers:list_servers",
        options=(
            flag("--check", help="Connect to each server and show its status. Exits with 4 if one fails."),
            path("--config", help="Read this file instead of the user's and the project's skillwire.toml."),
            text("--profile", metavar="NAME", help="Use this profile of the configuration."),
            JSON,
        ),
        examples=(
            ("skillwire servers", "what is configured"),
            ("skillwire servers list --check", "which servers respond, and how many skills they have"),
        ),
    ),
    Command(
        name="servers show",
        summary="Show one server: what it declares, what it speaks, its skills, files and problems",
        about="Connects to that server and to no other. Exits with 4 if it cannot be reached.",
        run="server_show:show_server",
        host=True,
        arguments=(_SERVER,),
        options=(JSON,),
        examples=(
            ("skillwire servers show docs", "a server of your configuration"),
            ("skillwire servers show docs --server docs=https://docs.example/mcp", "any other server"),
        ),
    ),
    Command(
        name="servers add",
        summary="Add a server to skillwire.toml",
        about="The rest of the file stays as it is. Write ${NAME} for an environment variable, to keep "
        "secrets out of the file.",
        run="servers:add",
        arguments=(
            Argument(field="name", metavar="NAME", help="A name for the server."),
            Argument(
                field="place",
                metavar="URL | -- COMMAND",
                help="Give the URL of the server, or -- and the command that starts it.",
                many=True,
                completion="command",
                marked="command",
            ),
        ),
        options=(
            _USER,
            text("--header", metavar="NAME=VALUE", help="Send this HTTP header. Repeatable.", many=True),
            text(
                "--token-env", metavar="VARIABLE", help="Send the bearer token in this environment variable."
            ),
            text(
                "--env",
                metavar="NAME=VALUE",
                help="Set this variable for the command. Repeatable.",
                many=True,
            ),
            _VARIABLES,
            choice(
                "--approval",
                choices=("prompt", "pinned", "always", "never"),
                help="Approval policy of the server's skills.",
            ),
            JSON,
        ),
        examples=(
            ("skillwire servers add docs https://docs.example/mcp --token-env DOCS_TOKEN", "a remote server"),
            (
                "skillwire servers add tools --user -- npx -y @example/tools",
                "a command, for all your projects",
            ),
        ),
    ),
    Command(
        name="servers remove",
        summary="Remove a server from skillwire.toml, with its cached files and approvals",
        run="servers:remove",
        arguments=(_SERVER,),
        options=(_USER, JSON),
        examples=(("skillwire servers remove docs", "from the project's file, or else the user's"),),
    ),
    Command(
        name="servers login",
        summary="Sign in to a remote server with OAuth",
        about="Opens a browser and waits. Without one, as over SSH, it prints an address to open anywhere "
        "and asks for the address that the browser ends at. Tokens are kept in the system keyring, or in a "
        "file that only you can read, and are renewed when they expire.",
        run="login:login",
        arguments=(_LOGIN_SERVER,),
        options=(
            flag("--paste", help="Use a browser on another machine, and paste the address that it ends at."),
            text(
                "--client-id",
                metavar="ID",
                help="Use this OAuth client, for services that register no clients by themselves.",
            ),
            text(
                "--client-secret-env",
                metavar="VARIABLE",
                help="The secret of that client is in this environment variable.",
            ),
            integer(
                "--port",
                help="Let the browser return to this port of 127.0.0.1. 0 picks a free one.",
                default=0,
                most=65535,
            ),
            seconds("--timeout", help="Wait this long for the browser.", default=300, least=1, most=3600),
            JSON,
        ),
        examples=(
            ("skillwire servers login docs", "in your browser"),
            ("skillwire servers login docs --paste", "on a machine without one"),
        ),
    ),
    Command(
        name="servers logout",
        summary="Revoke and delete the tokens of a login",
        run="login:logout",
        arguments=(_LOGIN_SERVER,),
        options=(JSON,),
        examples=(("skillwire servers logout docs", "until you sign in again"),),
    ),
    Command(
        name="servers enable",
        summary="Use the skills of a server again",
        run="servers:enable",
        arguments=(_SERVER,),
        options=(JSON,),
        examples=(("skillwire servers enable docs", "in every file that disables it"),),
    ),
    Command(
        name="servers disable",
        summary="Stop using the skills of a server, and keep its settings and approvals",
        about="It is not started or connected until you enable it.",
        run="servers:disable",
        arguments=(_SERVER,),
        options=(
            flag("--project", help="Disable it in the project's skillwire.toml only."),
            JSON,
        ),
        examples=(
            ("skillwire servers disable docs", "in the file that has it"),
            ("skillwire servers disable docs --project", "in this project"),
        ),
    ),
    Command(
        name="servers import",
        summary="Import the servers of your other MCP clients",
        about="Reads the configuration of Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini CLI, "
        "Goose, Windsurf, Zed, Copilot CLI, opencode and Wayland. What is switched off or narrowed there "
        "stays so. Nothing is started, and nothing is written without --write.",
        run="servers:import_servers",
        options=(
            flag("--write", help="Write the servers to skillwire.toml."),
            _VARIABLES,
            flag("--project", help="Use the project's skillwire.toml instead of the user's."),
            text("--only", metavar="NAME", help="Import this server only. Repeatable.", many=True),
            JSON,
        ),
        examples=(
            ("skillwire servers import", "what would be added"),
            ("skillwire servers import --only github --write", "add one of them"),
        ),
    ),
)
