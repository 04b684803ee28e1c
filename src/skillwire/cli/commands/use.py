"""The commands of people who use skills: look at them, find them, load them, install them."""

from __future__ import annotations

from functools import partial
from typing import Final

from skillwire.cli.command import Argument, choice, command, flag, number, path, text, texts
from skillwire.cli.commands import MODEL, ON_SERVER

NAME: Final = Argument(
    "name", "NAME", "The name of a skill as `skillwire list` shows it, or its URI.", completion="skill"
)

_VALUE: Final = texts("--value NAME=VALUE", "A value for an argument of a template, as in docs/{product}.")
_REFRESH: Final = flag("--refresh", "List every server again, also one whose last listing is still fresh.")
_command: Final = partial(command, host=True)
"""Every command here has the options that say where skills come from."""

_USE: Final = (
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
        number("--budget N", "With --for-model: at most N characters; skills that do not fit are counted."),
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
        number("--limit N", "Show at most N skills.", default=20, least=1, most=1000),
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
        "chat:run",
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
        number("--max-seconds SECONDS", "End it after this time.", limit="script_seconds"),
        number("--max-memory BYTES", "End it if it needs more.", limit="script_memory_bytes", least=1),
        number("--max-processes N", "The processes that it may have.", limit="script_processes", least=1),
        number("--max-disk BYTES", "End it if it writes more.", limit="script_disk_bytes", least=4096),
        number("--max-output BYTES", "End it if it prints more.", limit="script_output_bytes", least=1),
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
        MODEL,
        text("--prompt -p TEXT", "Do this one task and exit."),
        texts("--allow-tool SERVER/NAME", "Call this tool without asking."),
        number("--max-turns N", "Stop a task after this many requests to the model.", default=50, least=1),
        number("--max-tokens N", "Stop a task after this many tokens.", least=1),
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


_USER: Final = flag("--user", "Your own skills, for every project, instead of this project's.")
_YES: Final = flag("--yes -y", "Accept exactly what is shown, without being asked.")
_AGENT: Final = texts(
    "--agent ID",
    "Also link it for this agent instead of those that are found here.",
    field="agent_ids",
    completion="agent",
)
_COPY: Final = flag("--copy", "Give agents with folders of their own a copy instead of a link.")
_FORCE: Final = flag("--force", "Overwrite folders that were edited or that something else created.")
_INSTALL: Final = (_COPY, _FORCE, _YES, _USER)
_GRANTS: Final = (
    flag("--allow-tools", "Grant the tools that an allowed-tools field asks for."),
    flag("--allow-code", "Grant the scripts that an agent can run."),
    flag("--allow-signer", "Accept a signer other than the pinned one, or none."),
)
_NAMES: Final = Argument(
    "names",
    "NAME",
    "The name of an installed skill; without one, all of them.",
    required=False,
    many=True,
    completion="skill",
)
_ONE: Final = Argument("name", "NAME", "The name of an installed skill.", completion="skill")


_INSTALLING: Final = (
    command(
        "add",
        "install:add",
        "Install skills, and pin them in skillwire.lock\n\n"
        "Skills of MCP servers, sites, git repositories, folders and Python packages. Shows what "
        "would be installed, asks, writes it to .agents/skills and pins every file. Tools and scripts need "
        "their own grants; a skill that asks for them is not installed without.",
        Argument(
            "sources",
            "SOURCE",
            "SERVER/SKILL, SERVER, https://SITE, OWNER/REPO, OWNER/REPO/PATH, OWNER/REPO@REF, the address "
            "of a repository, git+URL#REF:PATH, a folder, an archive, or a lock file of another tool.",
            required=False,
            many=True,
        ),
        flag("--installed", "The skills in installed Python packages."),
        texts("--skill NAME", "Only the skills of this name."),
        flag("--list", "Only show which skills there are.", field="list_only"),
        text("--token-env VARIABLE", "The environment variable with the token that a site asks for."),
        *_GRANTS,
        _AGENT,
        *_INSTALL,
        host=True,
        examples={
            "skillwire add docs/release-notes": "one skill of a configured server",
            "skillwire add acme/skills --list": "which skills a repository has",
            "skillwire add acme/skills/pdf@v1.2": "a folder of a repository on GitHub, at a tag",
            "skillwire add https://example.org": "every skill that a site lists",
            "skillwire add git+https://git.example/skills#v1.2:pdf": "a folder of a repository, at a tag",
            "skillwire add ./team-skills --yes": "a folder, without being asked",
            "skillwire add ./skills-lock.json": "what `npx skills` installed",
        },
    ),
    command(
        "sync",
        "sync:sync",
        "Install exactly what skillwire.lock pins\n\n"
        "The first time in a project it shows what the lock would install and asks once. A folder "
        "that was edited is left alone. Exits with 10 if something differs, 11 if only part was installed, "
        "and 12 if something was refused.",
        flag("--check", "Only report what differs; every file is hashed."),
        flag("--frozen", "For CI: never change the lock, and fail if anything differs from it."),
        flag("--adopt", "Pin what was edited by hand, as it is on disk."),
        path(
            "--export DIR | FILE.tar.gz",
            "Write a verified copy to a new folder or archive instead. The same lock always gives the same "
            "archive, byte for byte.",
        ),
        texts("--skill NAME", "With --export, only the skills of this name."),
        _FORCE,
        _COPY,
        _YES,
        _USER,
        host=True,
        examples={
            "skillwire sync": "on a new machine, this is all you need",
            "skillwire sync --frozen --yes": "in CI: install exactly this",
            "skillwire sync --check": "in CI: report what differs",
            "skillwire sync --export skills.tar.gz": "all of them, in one file",
        },
    ),
    command(
        "update",
        "install:update",
        "Install what the sources of skills have now\n\n"
        "Shows the changes, asks, and pins it. With --check it exits with 10 if something changed.",
        _NAMES,
        flag("--check", "Only list what changed at its source."),
        flag("--diff", "Only show the changes: files, text, and new permissions that are asked for."),
        flag("--local", "With --diff, compare with the folder on disk instead: what was edited by hand."),
        *_GRANTS,
        *_INSTALL,
        host=True,
        examples={
            "skillwire update": "all of them",
            "skillwire update --check": "which skills changed; all sources are asked at once",
            "skillwire update --diff release-notes": "what changed, before an update",
            "skillwire update release-notes --yes": "one, without being asked",
        },
    ),
    command(
        "rollback",
        "install:rollback",
        "Restore an earlier version of a skill\n\n"
        "Uses the copies on this machine: no source is contacted, and every file is verified again.",
        _ONE,
        text("--to DIGEST", "This version; the beginning of its digest is enough."),
        _FORCE,
        _USER,
        examples={
            "skillwire rollback release-notes": "the previous version",
            "skillwire rollback release-notes --to 3f2a90": "a version that `skillwire show` lists",
        },
    ),
    command(
        "remove",
        "install:remove",
        "Remove installed skills from all folders",
        Argument("names", "NAME", "The name of an installed skill.", many=True, completion="skill"),
        flag("--force", "Remove folders that were edited, too."),
        _USER,
        examples={"skillwire remove release-notes": "its versions are kept for a rollback"},
    ),
)

COMMANDS: Final = (*_USE, *_INSTALLING)
