"""`skillwire config completion`: shell scripts, and the candidates that they ask for.

A script runs `skillwire __complete WORD...` with the words up to the cursor. The answer is one candidate a
line; `:file` or `:directory` asks the shell for its own. No server is connected for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from skillwire.cli.command import GLOBAL_OPTIONS, Argument, Command, Completion, Option
from skillwire.cli.commands import commands_of, group_of, names

FILES: Final = ":file"
DIRECTORIES: Final = ":directory"
_VERSION: Final = ("--version", "-V")

_BASH: Final = """\
# Add to ~/.bashrc:  source <(skillwire config completion bash)
_skillwire() {
    local cur="${COMP_WORDS[COMP_CWORD]}" line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :file) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$cur")) ;;
            :directory) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$cur")) ;;
            *) COMPREPLY+=("$line") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _skillwire skillwire
"""
_ZSH: Final = """\
#compdef skillwire
# Add to ~/.zshrc:  source <(skillwire config completion zsh)
_skillwire() {
    local -a candidates
    local line
    while IFS= read -r line; do
        case "$line" in
            :file) _files ;;
            :directory) _files -/ ;;
            *) candidates+=("$line") ;;
        esac
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#candidates} )) && compadd -a candidates
}
if [ "${funcstack[1]}" = "_skillwire" ]; then _skillwire "$@"; else compdef _skillwire skillwire; fi
"""
_FISH: Final = """\
# Save as ~/.config/fish/completions/skillwire.fish
function __skillwire_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (skillwire __complete $words[2..-1] 2>/dev/null)
        switch $line
            case ':file'
                __fish_complete_path (commandline -ct)
            case ':directory'
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c skillwire -f -a '(__skillwire_complete)'
"""
SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

Provider = Callable[[], Iterable[str]]


def completion(*, shell: str) -> None:
    """Print the script for a shell."""
    from skillwire.cli.output import write

    write(SCRIPTS[shell].rstrip("\n"))


def print_candidates(words: Sequence[str]) -> None:
    """Answer a script: the candidates for the last word."""
    from skillwire.cli.output import write

    providers: dict[Completion, Provider] = {"skill": _skills, "server": _servers, "agent": _agents}
    for candidate in candidates(words, providers):
        if candidate.isprintable():
            write(candidate)


def candidates(words: Sequence[str], providers: Mapping[Completion, Provider]) -> list[str]:
    """Return the completions of the last word. `providers` know the names of skills, servers and agents."""
    *before, current = words or ("",)
    if not before:
        first = [*names(), "help", *(name for one in GLOBAL_OPTIONS for name in one.names), *_VERSION]
        return _starting(first, current)
    if before[0] == "help":
        before = before[1:]
        if not before:
            return _starting(names(), current)
    if before[0] not in names():
        return []
    group = group_of(before[0])
    commands = {command.name: command for command in commands_of(before[0])}
    if group is None:
        longer = commands.get(" ".join(before[:2]))
        if longer is not None and len(before) > 1:
            return _of_command(longer, before[2:], current, providers)
        others = [name.partition(" ")[2] for name in commands if " " in name] if len(before) == 1 else []
        own = _of_command(commands[before[0]], before[1:], current, providers)
        return [*_starting(others, current), *own]
    if len(before) == 1:
        subcommands = [name.partition(" ")[2] for name in commands]
        options = _options(commands[group.default]) if current.startswith("-") else []
        return _starting([*subcommands, *options], current)
    command = commands.get(f"{before[0]} {before[1]}")
    return _of_command(command, before[2:], current, providers) if command else []


def _of_command(
    command: Command, before: Sequence[str], current: str, providers: Mapping[Completion, Provider]
) -> list[str]:
    if "--" in before:
        return [FILES]
    known = {name: one for one in (*command.all_options, *GLOBAL_OPTIONS) for name in one.names}
    positional = 0
    waiting: Option | None = None
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and word != "-":
            option = known.get(word.partition("=")[0])
            waiting = option if option and option.kind != "flag" and "=" not in word else None
        else:
            positional += 1
    if waiting is not None:
        return _values(waiting, current, providers)
    if current.startswith("-"):
        return _starting(_options(command), current)
    if not command.arguments:
        return []
    argument = command.arguments[min(positional, len(command.arguments) - 1)]
    if positional >= len(command.arguments) and not argument.many:
        return []
    return _values(argument, current, providers)


def _values(one: Option | Argument, current: str, providers: Mapping[Completion, Provider]) -> list[str]:
    if one.choices:
        return _starting(one.choices, current)
    if one.completion in ("file", "command"):
        return [FILES]
    if one.completion == "directory":
        return [DIRECTORIES]
    return _starting(providers[one.completion](), current) if one.completion in providers else []


def _options(command: Command) -> list[str]:
    every = (*command.all_options, *GLOBAL_OPTIONS)
    return [name for one in every for name in (one.name, one.off) if name]


def _starting(words: Iterable[str], current: str) -> list[str]:
    return sorted({word for word in words if word.startswith(current)})


def _servers() -> list[str]:
    from skillwire.errors import SkillwireError
    from skillwire.host import load_config

    try:
        return [server.label for server in load_config(fill=False).configured]
    except SkillwireError:
        return []


def _agents() -> list[str]:
    from skillwire.clients import agents

    return list(agents())


def _skills() -> list[str]:
    """Skills of the default directories, and skills of servers that are approved."""
    from pathlib import Path

    from skillwire.catalog import SPEC_NAMING, SkillKey
    from skillwire.consent import SqliteConsent
    from skillwire.errors import SkillwireError
    from skillwire.host import default_directories, state_paths

    found = [
        file.parent.name
        for _, folder in default_directories(Path.cwd(), Path.home())
        for file in folder.glob("*/SKILL.md")
    ]
    try:
        for record in SqliteConsent(state_paths().approvals).read():
            approval, entry = record.approval(), record.shown
            if approval is not None and entry is not None:
                found.append(SPEC_NAMING.handles(SkillKey(approval.origin, approval.uri), entry)[0])
    except (SkillwireError, OSError):
        pass  # Fewer candidates; the command itself says what is wrong.
    return found
