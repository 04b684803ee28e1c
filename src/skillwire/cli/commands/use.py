"""The commands of people who use skills: look at them, find them, load them."""

from __future__ import annotations

from functools import partial
from typing import Final

from skillwire.cli.command import (
    ON_SERVER,
    Argument,
    choice,
    command,
    flag,
    integer,
    path,
    seconds,
    text,
    texts,
)

NAME: Final = Argument(
    "name", "NAME", "The name of a skill as `skillwire list` shows it, or its URI.", completion="skill"
)

_VALUE: Final = texts("--value NAME=VALUE", "A value for an argument of a template, as in docs/{product}.")
_REFRESH: Final = flag("--refresh", "List every server again, also one whose last listing is still fresh.")
_command: Final = partial(command, host=True)
"""Every command here has the options that say where skills come from."""

COMMANDS: Final = (
    _command(
        "list",
        "skills:list_skills",
        "List the skills of your servers and directories",
        text("--on NAME", "List this server or directory only.", completion="server"),
        flag("--from-clients", "Also start or connect to the servers of your other MCP clients."),
        flag("--all", "Include skills that are disabled.", field="disabled"),
        flag("--signed", "Check the signature of each skill, and show who signed it."),
        flag("--installed", "Only what skillwire.lock pins, and where it came from. No server is contacted."),
        flag("--user", "With --installed: your own skills, for every project, instead of this project's."),
        flag("--for-model", "Print what a model is told instead; with --json, also the tools that it gets."),
        integer("--budget N", "With --for-model: at most N characters; skills that do not fit are counted."),
        texts("--working PATH", "With --for-model: a file being worked on; may activate path-scoped skills."),
        flag("--usage", "How often each skill was used on this machine. Needs usage = true in your file."),
        flag("--clear", "With --usage: delete what was counted."),
        flag("--fail-on-error", "Exit with 4 if a server or directory failed, for continuous integration."),
        _REFRESH,
        examples={
            "skillwire list": "everything that is configured",
            "skillwire list --server docs=https://docs.example/mcp": "with one more server",
            "skillwire list --dir ./skills --no-default-directories": "one directory only",
            "skillwire list --from-clients": "with the servers of your other MCP clients",
            "skillwire list --style goose": "with the names that Goose would use",
            "skillwire list --for-model --style codex": "what a model is told, as Codex presents it",
            "skillwire list --installed": "what is installed, and where from",
            "skillwire list --usage": "which skills are used, and which never",
        },
    ),
    _command(
        "show",
        "skills:show",
        "Show a skill's origin, files, approval and changes\n\n"
        "Of an installed skill also its source, pin and stored versions. Nothing is loaded or approved.",
        NAME,
        Argument("path", "PATH", "Print this file of the skill.", required=False),
        flag("--text", "Print its SKILL.md."),
        _VALUE,
        ON_SERVER,
        examples={
            "skillwire show code-review": "origin, approval, frontmatter, files",
            "skillwire show code-review --text": "its SKILL.md, before you load it",
            "skillwire show code-review references/guide.md": "one of its files",
            "skillwire show docs/{product}": "a template: its arguments, and values for them",
        },
    ),
    _command(
        "search",
        "skills:search",
        "Find skills by words\n\n"
        "Searches names, descriptions and cached text. The last word may be a prefix.",
        Argument("words", "WORDS", "What to look for.", many=True),
        text("--on NAME", "Search this server or directory only.", completion="server"),
        integer("--limit N", "Show at most N skills.", default=20, least=1, most=1000),
        flag(
            "--semantic", "Also find skills by the meaning of their descriptions. Needs the extra semantic."
        ),
        _REFRESH,
        examples={
            "skillwire search refund customer": "best match first",
            "skillwire search refund --on shop": "in one server or directory",
        },
    ),
    _command(
        "load",
        "skills:load",
        "Load a skill, or read a file of it: exactly what a model would get\n\n"
        "On a terminal you are asked about a skill that you have not approved. Elsewhere the command "
        "exits with 7. Every file is verified.",
        NAME,
        Argument("path", "PATH", "Print this file of the skill instead.", required=False),
        flag("--raw", "With PATH: the bytes of the file instead of the model's view."),
        path("--output -o FILE", "Write them to this new file; needs --raw."),
        _VALUE,
        ON_SERVER,
        examples={
            "skillwire load code-review": "asks first if it is not approved",
            "skillwire load code-review references/guide.md": "one of its files",
            "skillwire load code-review assets/logo.png --raw -o logo.png": "the bytes, to a file",
            "skillwire load docs/{product} --value product=widget": "a skill of a template",
        },
    ),
    _command(
        "run",
        "scripts:run",
        "Run a script of a skill in a sandbox\n\n"
        "It gets the files of its skill, the programs of the system and a scratch folder: no network, no "
        "home, no environment. What it needs beyond that is a grant: read:PATH, write:PATH, "
        "net:HOST[:PORT], env:NAME or exec:PROGRAM. You are asked once for what it requests and for what "
        "--grant adds; the answer holds until a file of the skill changes. It needs Linux and bubblewrap; "
        "elsewhere nothing is run. The exit code is the script's; 5 if a limit ended it, 14 if there is no "
        "sandbox.",
        Argument("script", "NAME/PATH", "The skill, and the script in it.", completion="skill"),
        Argument(
            "arguments", "ARGUMENT", "What the script gets; put -- before options.", required=False, many=True
        ),
        texts("--grant GRANT", "Ask for this, too."),
        flag("--explain", "Print what it would get, and run nothing."),
        text("--interpreter PROGRAM", "Run it with this program."),
        seconds("--max-seconds SECONDS", "End it after this time.", limit="script_seconds"),
        integer("--max-memory BYTES", "End it if it needs more.", limit="script_memory_bytes", least=1),
        integer("--max-processes N", "The processes that it may have.", limit="script_processes", least=1),
        integer("--max-disk BYTES", "End it if it writes more.", limit="script_disk_bytes", least=4096),
        integer("--max-output BYTES", "End it if it prints more.", limit="script_output_bytes", least=1),
        path("--audit FILE", "Append a line for the run: digest, script, grants, exit code, time, bytes."),
        flag(
            "--unsafe-no-sandbox",
            "Run it as a process of yours, with all that you can do. Asks on a terminal.",
        ),
        ON_SERVER,
        examples={
            "skillwire run pdf/scripts/extract.py input.pdf": "asks once for what it needs, then runs it",
            "skillwire run pdf/scripts/extract.py --grant read:./docs --grant write:./out": "with more",
            "skillwire run --explain pdf/scripts/extract.py": "what it would get, and why",
        },
    ),
    _command(
        "chat",
        "chat:chat",
        "Talk to a model that has these skills, and the tools of their servers\n\n"
        "Questions about skills and tools appear in the session. With -p it does one task and asks nobody: a "
        "tool of a server runs only if --allow-tool names it, and what needs a person makes the command exit "
        "with 7. Models are named as pydantic-ai does, and their keys come from its variables, such as "
        "ANTHROPIC_API_KEY. A session is not stored.",
        text("--model NAME", "The model: anthropic:NAME, openai:NAME, google:NAME, ollama:NAME."),
        text("--prompt -p TEXT", "Do this one task and exit."),
        texts("--allow-tool SERVER/NAME", "Call this tool without asking."),
        integer("--max-turns N", "Stop a task after this many requests to the model.", default=50, least=1),
        integer("--max-tokens N", "Stop a task after this many tokens.", least=1),
        choice(
            "--output-format text|stream-json",
            "With -p: the answer, or a JSON line per event.",
            default="text",
        ),
        flag("--demo", "Use sample skills and a model that follows a script: no key is needed."),
        flag("--plain", "No colors and no drawing, for screen readers. NO_COLOR does the same."),
        flag("--history", "Keep what you type in a file of yours, for the arrow keys.", default=True),
        json=False,
        examples={
            "skillwire chat --demo": "see everything in a minute",
            "skillwire chat --model anthropic:claude-sonnet-4-5": "with the servers of skillwire.toml",
            "skillwire chat -p 'Review pull request 7' --allow-tool forge/add_comment": "one task",
        },
    ),
)
