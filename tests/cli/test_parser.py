"""The command line is read by one table: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import inspect
import re
import shlex
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from every import every
from properties import examples
from skillwire.cli.command import GLOBAL_OPTIONS, HOST_OPTIONS, Argument, Command, Option, read_words
from skillwire.cli.commands import all_commands, meant, names, other_words
from skillwire.cli.host_options import HostOptions
from skillwire.cli.line import help_text, parse_line
from skillwire.cli.serve import ServeOptions
from skillwire.errors import UsageError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server import LegacyFeatures

COMMANDS = {command.name: command for command in all_commands()}
GLOBAL_FIELDS = {option.field for option in GLOBAL_OPTIONS}


def parsed(line: str | list[str]) -> dict[str, Any]:
    """The values of a line, without those that every command has."""
    words = line.split() if isinstance(line, str) else line
    found = parse_line(words)
    assert found.command is not None
    values = read_words(found.command, found.words)
    return {name: value for name, value in values.items() if name not in GLOBAL_FIELDS}


def given_in(line: str | list[str]) -> dict[str, Any]:
    """The values that differ from the defaults."""
    words = line.split() if isinstance(line, str) else line
    command = parse_line(words).command
    assert command is not None
    defaults = {option.field: option.default for option in command.all_options}
    return {name: value for name, value in parsed(words).items() if defaults.get(name, ...) != value}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("serve ./skills", {"paths": ("./skills",)}),
        ("serve a b=c", {"paths": ("a", "b=c")}),
        ("serve a --http h:1 b", {"paths": ("a", "b"), "http": "h:1"}),
        ("serve a --http=x=y", {"paths": ("a",), "http": "x=y"}),
        ("serve a --allow-host x --allow-host=y", {"paths": ("a",), "allow_host": ("x", "y")}),
        ("serve a --token-file /t/../u", {"paths": ("a",), "token_file": Path("/t/../u")}),
        ("serve a --ttl 1.5 --page-size 007", {"paths": ("a",), "ttl": 1.5, "page_size": 7}),
        ("serve a --ttl 0 --page-size 1000", {"paths": ("a",), "ttl": 0, "page_size": 1000}),
        ("serve a --no-watch --no-prompts", {"paths": ("a",), "watch": False, "prompts": False}),
        ("serve a --no-watch --watch", {"paths": ("a",)}),
        ("serve a --strict --strict", {"paths": ("a",), "strict": True}),
        ("serve -- --odd", {"paths": ("--odd",)}),
        ("serve -", {"paths": ("-",)}),
        ("serve Straße 日本", {"paths": ("Straße", "日本")}),
        ("show name --text path", {"name": "name", "text": True, "path": "path"}),
        ("show name", {"name": "name", "path": None}),
        ("load a b -o f --raw", {"name": "a", "path": "b", "output": Path("f"), "raw": True}),
        ("serve d --no-scan-cache", {"paths": ("d",), "scan_cache": False}),
        ("list --dir mine=/x --dir /y", {"directories": ("mine=/x", "/y")}),
        ("verify https://x/mcp --json", {"target": ("https://x/mcp",), "as_json": True}),
        (
            "verify --json -- node s.mjs --json -h",
            {"target": ("node", "s.mjs", "--json", "-h"), "as_json": True},
        ),
        ("verify --protocol 2025-11-25 u", {"target": ("u",), "protocol": "2025-11-25"}),
        (
            "servers add tools --user -- npx -y x",
            {"name": "tools", "place": ("npx", "-y", "x"), "user": True, "command": True},
        ),
        (
            "servers add docs http://x --user",
            {"name": "docs", "place": ("http://x",), "user": True, "command": False},
        ),
        ("servers --check", {"check": True}),
        ("-q servers list", {}),
    ],
)
def test_a_line_is_read_into_values(line: str, values: dict[str, Any]) -> None:
    assert given_in(line) == values


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lnt .", "there is no command 'lnt': did you mean lint?"),
        ("frobnicate", "there is no command 'frobnicate'"),
        ("help frobnicate", "there is no command 'frobnicate'"),
        ("--verzion", "--verzion is not an option of skillwire itself: did you mean --version?"),
        ("--zzzzz", "--zzzzz is not an option of skillwire itself: name a command first"),
        ("-- serve x", "-- is not an option of skillwire itself: name a command first"),
        ("Serve x", "there is no command 'Serve': did you mean serve?"),
        ("servers lst", "there is no command 'lst': did you mean list?"),
        ("approvals x", "there is no command 'x': choose from list, decline, request, export, import"),
        ("remove", "NAME is missing: write skillwire remove [OPTIONS] NAME..."),
        ("show", "NAME is missing: write skillwire show [OPTIONS] NAME [PATH]"),
        ("show a b c", "unexpected argument 'c': write skillwire show [OPTIONS] NAME [PATH]"),
        ("config paths x", "unexpected argument 'x': write skillwire config paths [OPTIONS]"),
        ("serve x --htpp 1", "there is no option --htpp: did you mean --http?"),
        ("serve x --zzzzzz", "there is no option --zzzzzz"),
        ("serve x -z", "there is no option -z"),
        ("serve x --http", "--http needs a value: --http HOST:PORT"),
        ("serve x --http --strict", "--http needs a value: --http HOST:PORT"),
        ("serve x --http=", "--http has an empty value: write --http HOST:PORT"),
        ("serve x --http a --http b", "--http was given twice: give it once"),
        ("serve x --strict=yes", "--strict takes no value: write --strict alone"),
        ("serve x --page-size 0", "--page-size must be a whole number from 1 to 1,000, not '0'"),
        ("serve x --page-size -1", "--page-size must be a whole number from 1 to 1,000, not '-1'"),
        ("serve x --page-size 1_0", "--page-size must be a whole number from 1 to 1,000, not '1_0'"),
        ("serve x --page-size ٣", "--page-size must be a whole number from 1 to 1,000, not '٣'"),
        ("serve x --page-size 1.0", "--page-size must be a whole number from 1 to 1,000, not '1.0'"),
        ("serve x --ttl nan", "--ttl must be a number from 0 to 31,536,000, not 'nan'"),
        ("serve x --ttl 1e3", "--ttl must be a number from 0 to 31,536,000, not '1e3'"),
        ("serve x --ttl .", "--ttl must be a number from 0 to 31,536,000, not '.'"),
        ("list --for-model --budget x", "--budget must be a whole number of at least 0, not 'x'"),
        ("serve x --tools sometimes", "--tools must be one of auto, always, never, not 'sometimes'"),
        ("verify node s.mjs --json", "--json may be an option of s.mjs: put -- before the command"),
        ("servers add x npx -y y", "-y may be an option of npx: put -- before the command"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_to_write(line: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(line)
    assert str(refused.value) == message


def test_an_empty_word_is_no_argument() -> None:
    with pytest.raises(UsageError, match="PATH is empty"):
        parsed(["serve", ""])


WORDS = st.one_of(
    st.sampled_from(
        [name for command in COMMANDS.values() for option in command.all_options for name in option.names]
    ),
    st.sampled_from(
        [*names(), "list", "add", "--", "-", "-h", "=", "", "7", "x=y", "--help", "help", "\udc80"]
    ),
    st.text(max_size=6),
)


@given(st.lists(WORDS, max_size=7))
@examples(400)
def test_any_words_are_values_or_a_usage_error(words: list[str]) -> None:
    with suppress(UsageError):
        line = parse_line(words)
        if line.command is not None:
            read_words(line.command, line.words)


def types_of(option: Option | Argument) -> set[Any]:
    """What the function of a command may declare for a value."""
    kinds = {"flag": bool, "text": str, "path": Path, "choice": str, "integer": int, "number": float}
    kind: Any = kinds[option.kind]
    if option.many:
        return {tuple[kind, ...]}
    required = option.required if isinstance(option, Argument) else option.default is not None
    return {kind} if required else {kind | None}


def simplified(hint: Any) -> Any:
    """A literal of texts counts as text."""
    parts = get_args(hint)
    if parts and all(isinstance(part, str) for part in parts):
        return str
    if type(None) in parts and any(get_origin(part) is Literal for part in parts):
        return str | None
    return hint


@every("command", COMMANDS.values())
def test_the_function_of_a_command_takes_exactly_what_its_table_says(command: Command) -> None:
    module, _, name = command.run.partition(":")
    function = getattr(import_module(f"skillwire.cli.{module}"), name)
    if command.name == "serve":
        from skillwire.server import IndexShape, ToolsMode

        hints = get_type_hints(ServeOptions, localns={"IndexShape": IndexShape, "ToolsMode": ToolsMode})
    elif command.name == "gateway run":
        from skillwire.cli.gateway import RunOptions
        from skillwire.server import ToolsMode

        hints = get_type_hints(RunOptions, localns={"ToolsMode": ToolsMode})
    else:
        hints = {
            parameter: hint
            for parameter, hint in get_type_hints(function, localns={"HostOptions": HostOptions}).items()
            if parameter != "return"
        }
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                [keywords] = get_args(hints.pop(parameter.name))
                hints |= get_type_hints(keywords)
            else:
                assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    if command.host:
        assert hints.pop("options") is HostOptions
    described = {one.field: types_of(one) for one in (*command.arguments, *command.options)}
    described |= {one.marked: {bool} for one in command.arguments if one.marked}
    assert hints.keys() == described.keys()
    for field, hint in hints.items():
        assert simplified(hint) in described[field], field


def test_host_options_has_a_field_for_each_shared_option() -> None:
    hints = get_type_hints(HostOptions)
    assert hints.keys() == {option.field for option in HOST_OPTIONS}
    for option in HOST_OPTIONS:
        assert hints[option.field] in types_of(option), option.field


@every("command", COMMANDS.values())
def test_no_option_of_a_command_has_the_name_of_another(command: Command) -> None:
    every = (*command.all_options, *GLOBAL_OPTIONS)
    spellings = [name for option in every for name in (*option.names, option.off) if name]
    assert len(spellings) == len(set(spellings))
    fields = [one.field for one in (*every, *command.arguments)]
    assert len(fields) == len(set(fields))


@pytest.mark.parametrize(
    ("command", "option", "limit"),
    [
        ("verify", "--max-skills", DEFAULT_LIMITS.verified_skills),
        ("verify", "--max-bytes", DEFAULT_LIMITS.bytes_per_server),
        ("verify", "--timeout", DEFAULT_LIMITS.call_seconds),
        ("search", "--limit", DEFAULT_LIMITS.search_results),
    ],
)
def test_defaults_are_those_of_the_limits(command: str, option: str, limit: float) -> None:
    # The tables repeat them, so that help need not import the limits.
    assert [one.default for one in COMMANDS[command].options if one.name == option] == [limit]


def test_the_first_screen_fits_24_lines_of_80_columns_and_has_every_word() -> None:
    lines = help_text("", width=80).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in re.split(r"[ ,]+", line)}
    assert set(names()) <= words
    assert any("skillwire help --all" in line for line in lines)
    for line in lines:
        if line.startswith("  skillwire ") and "COMMAND" not in line:
            parse_line(re.split(r"  +", line.strip())[0].split()[1:])


def test_the_legacy_features_of_a_server_are_options_of_serve_with_the_same_names() -> None:
    options = {option.field: option for option in COMMANDS["serve"].options}
    for field in fields(LegacyFeatures):
        option = options[field.name]
        assert option.name == f"--{field.name.replace('_', '-')}"
        assert option.default == field.default


def test_help_all_has_every_command_with_a_line_about_it() -> None:
    text = " ".join(help_text("", width=80, in_full=True).split())
    for command in COMMANDS.values():
        assert f"{command.name} {command.summary}" in text


def test_there_are_at_most_65_commands() -> None:
    assert len(COMMANDS) <= 65


@every(
    "words",
    [
        *("install", "uninstall", "find", "ls", "rm", "init", "login", "read", "catalog", "outdated", "diff"),
        *("why", "export", "keygen", "verify-signature", "decline", "agents", "enable", "disable", "cache"),
        *("paths", "completion", "try", "push-oci", "servers trust"),
        *("registry versions", "registry grant", "registry ungrant", "policy explain"),
    ],
)
def test_the_words_that_people_know_from_elsewhere_have_an_answer(words: str) -> None:
    assert words in other_words()


@every("words", other_words())
def test_another_word_for_a_command_is_answered_with_the_right_one(words: str) -> None:
    with pytest.raises(UsageError, match=r"there is no command .*: write skillwire ") as refused:
        parse_line([*words.split(), "x"])
    right = str(refused.value).partition("write skillwire ")[2]
    assert right == meant(*words.split())
    line = parse_line(right.split())
    options = {word for word in right.split() if word.startswith("--")}
    assert line.version or line.command is not None
    assert line.command is None or options <= {one.name for one in line.command.all_options}


@every("command", COMMANDS.values())
def test_an_option_means_the_same_in_every_command(command: Command) -> None:
    options = {one.name: one for one in command.all_options}
    without = {"serve", "gateway run", "ui", "new", "chat", "approvals export", "config completion"}
    assert ("--json" in options) == (command.name not in without)
    # Where a question is asked, except about the approval of a skill, of a script or of a project.
    asking = {"serve", "add", "sync", "update", "gateway uninstall", "config paths"}
    assert ("--yes" in options) == (command.name in asking)
    for name, kind in {"--on": "text", "--user": "flag", "--yes": "flag", "--json": "flag"}.items():
        assert name not in options or options[name].kind == kind
    assert (
        "--on" in options
        or not any(one.completion == "skill" for one in command.arguments)
        or (
            command.name in ("update", "rollback", "remove")  # They name what is installed.
        )
    )


def test_the_help_of_serve_has_a_dozen_options_and_says_where_the_others_are() -> None:
    text, full = help_text("serve", width=80), help_text("serve", width=80, in_full=True)
    shown = [one for one in COMMANDS["serve"].options if not one.seldom]
    assert len(shown) == 12
    assert text.endswith("More: skillwire help serve --all")
    assert "--max-views" not in text
    assert "--max-views" in full
    assert parse_line(["help", "serve", "--all"]).in_full


@every("topic, width", product(["", *dict.fromkeys([*names(), *COMMANDS])], [20, 50, 80, 200]))
def test_help_is_whole_and_fits_at_every_width(topic: str, width: int) -> None:
    text = help_text(topic, width=width, in_full=bool(topic))
    for metavar in ("PATH", "WORDS", "COMMAND", "SOURCE", "NAME", "CLIENT", "ARGUMENT", "SCENARIO", "FILE"):
        text = text.replace(f"{metavar}...", "")
    assert "..." not in text
    assert ("Examples:" if topic else "Start with:") in text
    told = " ".join(text.split())
    for command in [COMMANDS[topic]] if topic in COMMANDS else []:
        for part in (*command.all_options, *command.arguments):
            assert " ".join(part.help.split()) in told
    for line in text.splitlines():
        # A word is never broken: on a narrow screen a line may be too long when it is one.
        assert len(line) <= max(width, 50) or (width < 80 and line.lstrip().startswith(("-", "skillwire")))


@every("command", COMMANDS.values())
def test_every_example_in_help_is_understood(command: Command) -> None:
    assert command.examples
    for line, _ in command.examples:
        program, *words = shlex.split(line)
        assert program == "skillwire"
        assert parsed(words) is not None
