"""The commands of people who use skills: look at them, find them, load them."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, ON_SERVER, Argument, Command, choice, flag, integer, path, text

NAME: Final = Argument(
    "name", "NAME", "The name of a skill as `skillwire list` shows it, or its URI.", completion="skill"
)

_NAMES: Final = NAME._replace(field="names", many=True)
_VALUE: Final = text(
    "--value NAME=VALUE",
    "A value for an argument of a template, as in docs/{product}. Repeatable.",
    many=True,
)

COMMANDS: Final = (
    Command(
        "list",
        "List the skills of your servers and directories",
        "skills:list_skills",
        host=True,
        options=(
            text("--on NAME", "List this server or directory only.", completion="server"),
            flag("--from-clients", "Also start or connect to the servers of your other MCP clients."),
            flag("--all", "Include skills that are disabled.", field="disabled"),
            flag("--signed", "Check the signature of each skill, and show who signed it."),
            flag(
                "--fail-on-error", "Exit with 4 if a server or directory failed, for continuous integration."
            ),
            flag("--refresh", "List every server again, also one whose last listing is still fresh."),
            JSON,
        ),
        examples=(
            ("skillwire list", "everything that is configured"),
            ("skillwire list --server docs=https://docs.example/mcp", "with one more server"),
            ("skillwire list --dir ./skills --no-default-directories", "one directory only"),
            ("skillwire list --from-clients", "with the servers of your other MCP clients"),
            ("skillwire list --style goose", "with the names that Goose would use"),
            ("skillwire list --signed", "with who signed each skill"),
        ),
    ),
    Command(
        "show",
        "Show a skill's origin, files, approval and changes",
        "skills:show",
        about="Nothing is loaded or approved.",
        host=True,
        arguments=(
            NAME,
            Argument("path", "PATH", "Print this file of the skill.", required=False),
        ),
        options=(flag("--text", "Print its SKILL.md."), _VALUE, ON_SERVER, JSON),
        examples=(
            ("skillwire show code-review", "origin, approval, frontmatter, files"),
            ("skillwire show code-review --text", "its SKILL.md, before you load it"),
            ("skillwire show code-review references/guide.md", "one of its files"),
            ("skillwire show docs/{product}", "a template: its arguments, and values for them"),
        ),
    ),
    Command(
        "search",
        "Find skills by words",
        "search:search",
        about="Searches names, descriptions and cached text. The last word may be a prefix.",
        host=True,
        arguments=(Argument("words", "WORDS", "What to look for.", many=True),),
        options=(
            text("--on NAME", "Search this server or directory only.", completion="server"),
            integer("--limit N", "Show at most N skills.", default=20, least=1, most=1000),
            flag("--refresh", "List every server again, also one whose last listing is still fresh."),
            JSON,
        ),
        examples=(
            ("skillwire search refund customer", "best match first"),
            ("skillwire search refund --on shop", "in one server or directory"),
        ),
    ),
    Command(
        "catalog",
        "Print what a model is told about your skills",
        "catalog:catalog",
        about="With --json, also the definitions of the tools that the model gets.",
        host=True,
        options=(
            integer("--budget N", "Use at most N characters; skills that do not fit are counted."),
            text(
                "--working PATH",
                "A file being worked on; may activate path-scoped skills. Repeatable.",
                many=True,
            ),
            flag("--refresh", "List every server again, also one whose last listing is still fresh."),
            JSON,
        ),
        examples=(
            ("skillwire catalog", "as Skillwire presents them"),
            ("skillwire catalog --style codex", "as Codex does"),
        ),
    ),
    Command(
        "load",
        "Load a skill and print exactly what a model would get",
        "load:load",
        about="On a terminal you are asked about a skill that you have not approved. Elsewhere the command "
        "exits with 7.",
        host=True,
        arguments=(NAME,),
        options=(_VALUE, ON_SERVER, JSON),
        examples=(
            ("skillwire load code-review", "asks first if it is not approved"),
            ("skillwire load docs/{product} --value product=widget", "a skill of a template"),
        ),
    ),
    Command(
        "read",
        "Print a file of a skill, verified, as a model would get it",
        "load:read",
        host=True,
        arguments=(NAME, Argument("path", "PATH", "The path of a file of the skill.")),
        options=(
            flag("--raw", "Print the bytes of the file instead of the model's view."),
            path("--output -o FILE", "Write to this new file; needs --raw."),
            _VALUE,
            ON_SERVER,
            JSON,
        ),
        examples=(
            ("skillwire read code-review references/guide.md", "as text for a model"),
            ("skillwire read code-review assets/logo.png --raw -o logo.png", "the bytes, to a file"),
        ),
    ),
    Command(
        "enable",
        "Use disabled skills again",
        "switch:enable",
        host=True,
        arguments=(_NAMES,),
        options=(JSON,),
        examples=(("skillwire enable refunds", "in every file that disables it"),),
    ),
    Command(
        "disable",
        "Leave skills out: they are not listed or loaded",
        "switch:disable",
        about="Recorded as `disabled` in your skillwire.toml. `skillwire list --all` shows them.",
        host=True,
        arguments=(_NAMES,),
        options=(flag("--project", "Record it in the project's skillwire.toml instead of the user's."), JSON),
        examples=(
            ("skillwire disable refunds", "everywhere"),
            ("skillwire disable shop/refunds --project", "in this project"),
        ),
    ),
    Command(
        "try",
        "Try a model on a skill: five checks of one task",
        "trial:try_model",
        about="Gives a model service one task and answers its tool calls. Checks that the skill is in the "
        "prompt, the model loads it, its text arrives fenced, its supporting files are read, and the "
        "answer follows it. Without --skill, a small skill is created for the run, with a word that "
        "appears only in its file. Exits with 1 if a check fails. The key is read from ANTHROPIC_API_KEY "
        "or OPENAI_API_KEY.",
        host=True,
        options=(
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
            JSON,
        ),
        examples=(
            ("skillwire try --model claude-sonnet-4-5", "with a skill that is made for the run"),
            (
                "skillwire try --model qwen3 --format openai --base-url http://127.0.0.1:11434",
                "a model on this machine",
            ),
            (
                "skillwire try --model gpt-5 --skill refunds --task refund-order-7 --expect form-B",
                "one of your skills",
            ),
        ),
    ),
)
