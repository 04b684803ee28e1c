"""The commands of people who use skills: look at them, find them, load them."""

from __future__ import annotations

from functools import partial
from typing import Final

from skillwire.cli.command import ON_SERVER, Argument, choice, command, flag, integer, path, text

NAME: Final = Argument(
    "name", "NAME", "The name of a skill as `skillwire list` shows it, or its URI.", completion="skill"
)

_NAMES: Final = NAME._replace(field="names", many=True)
_VALUE: Final = text(
    "--value NAME=VALUE",
    "A value for an argument of a template, as in docs/{product}. Repeatable.",
    many=True,
)
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
        flag("--fail-on-error", "Exit with 4 if a server or directory failed, for continuous integration."),
        _REFRESH,
        examples={
            "skillwire list": "everything that is configured",
            "skillwire list --server docs=https://docs.example/mcp": "with one more server",
            "skillwire list --dir ./skills --no-default-directories": "one directory only",
            "skillwire list --from-clients": "with the servers of your other MCP clients",
            "skillwire list --style goose": "with the names that Goose would use",
            "skillwire list --signed": "with who signed each skill",
        },
    ),
    _command(
        "show",
        "skills:show",
        "Show a skill's origin, files, approval and changes\n\nNothing is loaded or approved.",
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
        "search:search",
        "Find skills by words\n\n"
        "Searches names, descriptions and cached text. The last word may be a prefix.",
        Argument("words", "WORDS", "What to look for.", many=True),
        text("--on NAME", "Search this server or directory only.", completion="server"),
        integer("--limit N", "Show at most N skills.", default=20, least=1, most=1000),
        _REFRESH,
        examples={
            "skillwire search refund customer": "best match first",
            "skillwire search refund --on shop": "in one server or directory",
        },
    ),
    _command(
        "catalog",
        "catalog:catalog",
        "Print what a model is told about your skills\n\n"
        "With --json, also the definitions of the tools that the model gets.",
        integer("--budget N", "Use at most N characters; skills that do not fit are counted."),
        text(
            "--working PATH",
            "A file being worked on; may activate path-scoped skills. Repeatable.",
            many=True,
        ),
        _REFRESH,
        examples={
            "skillwire catalog": "as Skillwire presents them",
            "skillwire catalog --style codex": "as Codex does",
        },
    ),
    _command(
        "load",
        "load:load",
        "Load a skill and print exactly what a model would get\n\n"
        "On a terminal you are asked about a skill that you have not approved. Elsewhere the command "
        "exits with 7.",
        NAME,
        _VALUE,
        ON_SERVER,
        examples={
            "skillwire load code-review": "asks first if it is not approved",
            "skillwire load docs/{product} --value product=widget": "a skill of a template",
        },
    ),
    _command(
        "read",
        "load:read",
        "Print a file of a skill, verified, as a model would get it",
        NAME,
        Argument("path", "PATH", "The path of a file of the skill."),
        flag("--raw", "Print the bytes of the file instead of the model's view."),
        path("--output -o FILE", "Write to this new file; needs --raw."),
        _VALUE,
        ON_SERVER,
        examples={
            "skillwire read code-review references/guide.md": "as text for a model",
            "skillwire read code-review assets/logo.png --raw -o logo.png": "the bytes, to a file",
        },
    ),
    _command(
        "enable",
        "switch:enable",
        "Use disabled skills again",
        _NAMES,
        examples={"skillwire enable refunds": "in every file that disables it"},
    ),
    _command(
        "disable",
        "switch:disable",
        "Leave skills out: they are not listed or loaded\n\n"
        "Recorded as `disabled` in your skillwire.toml. `skillwire list --all` shows them.",
        _NAMES,
        flag("--project", "Record it in the project's skillwire.toml instead of the user's."),
        examples={
            "skillwire disable refunds": "everywhere",
            "skillwire disable shop/refunds --project": "in this project",
        },
    ),
    _command(
        "try",
        "trial:try_model",
        "Try a model on a skill: five checks of one task\n\n"
        "Gives a model service one task and answers its tool calls. Checks that the skill is in the "
        "prompt, the model loads it, its text arrives fenced, its supporting files are read, and the "
        "answer follows it. Without --skill, a small skill is created for the run, with a word that "
        "appears only in its file. Exits with 1 if a check fails. The key is read from ANTHROPIC_API_KEY "
        "or OPENAI_API_KEY.",
        text("--model NAME", "The model, as its service calls it."),
        choice(
            "--format anthropic|openai",
            "The message format: by default anthropic for claude models, otherwise openai.",
        ),
        text(
            "--base-url URL",
            "The service. By default the format's own, or ANTHROPIC_BASE_URL or OPENAI_BASE_URL.",
        ),
        text("--key-env VARIABLE", "The environment variable that holds the key."),
        text("--skill NAME", "Try this skill of yours; needs --task and --expect."),
        text("--task TEXT", "The task for the model."),
        text("--expect TEXT", "Text that the answer must contain, in any case."),
        examples={
            "skillwire try --model claude-sonnet-4-5": "with a skill that is made for the run",
            "skillwire try --model qwen3 --format openai --base-url http://127.0.0.1:11434": (
                "a model on this machine"
            ),
            "skillwire try --model gpt-5 --skill refunds --task refund-7 --expect form-B": (
                "one of your skills"
            ),
        },
    ),
)
