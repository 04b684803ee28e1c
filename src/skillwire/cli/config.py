"""`skillwire config`: where things are stored, the cache, the agents, what is left out, shell completion.

A script of a shell runs `skillwire __complete WORD...` with the words up to the cursor. The answer is one
candidate a line; `:file` or `:directory` asks the shell for its own. No server is connected for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.cli.command import GLOBAL_OPTIONS, Argument, Command, Completion, Option
from skillwire.cli.commands import commands_of, group_of, names
from skillwire.cli.host_options import HostOptions, with_host
from skillwire.errors import SkillNotFound, SourceError

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.host import SkillHost
    from skillwire.install import Workspace


def cache(*, clear: bool, on: str | None, as_json: bool) -> None:
    """List the cached files by server, the scan caches and the packages of scripts, or remove them."""
    (_clear if clear else _list_files)(on, as_json=as_json)


def _list_files(on: str | None, *, as_json: bool) -> None:
    from skillwire.cli.output import Screen, counted, human_size, printable, show_json
    from skillwire.files import folder_size
    from skillwire.host import SkillCache, state_paths

    files = sorted(SkillCache(state_paths().cache).files(), key=lambda file: (file.origin, file.uri))
    if on is not None:
        files = [file for file in files if file.origin.label == on]
    scan_caches = {} if on else {str(path): path.stat().st_size for path in _scan_caches()}
    packages = {} if on else {str(path): folder_size(path) for path in _packages()}
    if as_json:
        show_json(
            {
                "files": [
                    {"server": file.origin.label, "uri": file.uri, "size": file.size, "path": str(file.path)}
                    for file in files
                ],
                "scan_caches": [{"size": size, "path": path} for path, size in scan_caches.items()],
                "packages": [{"size": size, "path": path} for path, size in packages.items()],
            }
        )
        return
    screen = Screen()
    for label in dict.fromkeys(file.origin.label for file in files):
        of_server = [file for file in files if file.origin.label == label]
        total = human_size(sum(file.size for file in of_server))
        screen.line((label, "bold"), f"  {counted(len(of_server), 'file')}, {total}")
        for file in of_server:
            screen.line(f"  {human_size(file.size):>9}  {printable(file.uri)}")
    if scan_caches:
        total = human_size(sum(scan_caches.values()))
        screen.line(f"{counted(len(scan_caches), 'scan cache')} of served directories, {total}")
    if packages:
        total = human_size(sum(packages.values()))
        screen.line(f"{counted(len(packages), 'list')} of Python packages for scripts, {total}")
    if not files and not scan_caches and not packages:
        screen.line("The cache is empty.")


def _clear(on: str | None, *, as_json: bool) -> None:
    import shutil

    from skillwire.cli.output import Screen, counted, show_json
    from skillwire.host import SkillCache, state_paths
    from skillwire.trust import Origin

    kept = SkillCache(state_paths().cache)
    origins = sorted({file.origin for file in kept.files()})
    if on is not None:
        wanted = Origin.mcp(on)
        if wanted not in origins:
            known = ", ".join(origin.label for origin in origins) or "none"
            raise SkillNotFound(f"no files of a server called {on} are cached; known: {known}")
        origins = [wanted]
    removed = {origin.label: kept.remove_server(origin) for origin in origins}
    scan_caches = [] if on is not None else _scan_caches()
    for file in scan_caches:
        file.unlink(missing_ok=True)
    packages = [] if on is not None else _packages()
    for folder in packages:
        shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        show_json({"removed": removed, "scan_caches": len(scan_caches), "packages": len(packages)})
        return
    more = f" and {counted(len(scan_caches), 'scan cache')}" if scan_caches else ""
    more += f" and {counted(len(packages), 'list')} of packages" if packages else ""
    Screen().line(f"Removed {counted(sum(removed.values()), 'file')}{more}.")


def _scan_caches() -> list[Path]:
    """The scan caches of directories that were served."""
    from skillwire.sources import scan_cache_directory, scan_caches_in

    folder = scan_cache_directory()
    return [] if folder is None else sorted(scan_caches_in(folder))


def _packages() -> list[Path]:
    """The folders of installed packages, one for each list that scripts have."""
    from skillwire.host import state_paths

    return _children(state_paths().cache.parent / "packages")


def paths(*, delete: bool, yes: bool, as_json: bool) -> None:
    """Show where configuration, approvals and caches are stored, or delete all but the configuration."""
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.host import policy_log, project_file, state_paths
    from skillwire.install import StateFiles
    from skillwire.sources import scan_cache_directory

    places = state_paths()
    named = {
        "config": places.config,
        "project": project_file(),
        "approvals": places.approvals,
        "trusted": places.trusted,
        "logins": places.logins,
        "audit": places.audit,
        "usage": places.usage,
        "policy_log": policy_log(),
        "cache": places.cache,
        "installs": StateFiles.of_user().folder,
    }
    scan_caches = scan_cache_directory()
    if scan_caches is not None:
        named["scan_caches"] = scan_caches
    if delete:
        # Both folders are ours alone. On some systems, the configuration is in one of them.
        folders = (places.approvals.parent, places.cache.parent)
        _delete(
            [one for folder in folders for one in _children(folder) if one != places.config], yes, as_json
        )
        return
    if as_json:
        show_json(
            {"paths": {name: {"path": str(path), "exists": path.exists()} for name, path in named.items()}}
        )
        return
    Screen().pairs(
        (name.replace("_", " "), printable(str(path)) + ("" if path.exists() else "  (does not exist yet)"))
        for name, path in named.items()
    )


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _delete(found: list[Path], yes: bool, as_json: bool) -> None:
    """Delete what is stored, after a person was asked."""
    import asyncio
    import shutil

    from skillwire.cli.host_options import answer, person_screen
    from skillwire.cli.output import Screen, counted, printable, show_json
    from skillwire.errors import UsageError

    if found and not yes:
        screen = person_screen()
        for path in found:
            screen.line(f"  {printable(str(path))}")
        if asyncio.run(answer(screen, "Delete all of these?", "[y/N]")) not in ("y", "yes"):
            raise UsageError("nothing was deleted: answer yes on a terminal, or add --yes")
    for path in found:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise SourceError(f"{path} cannot be deleted: {error.strerror}") from None
    if as_json:
        show_json({"deleted": [str(path) for path in found]})
    else:
        Screen().line(f"Deleted {counted(len(found), 'path')}. The configuration stays.")


def agents(*, everyone: bool, user: bool, as_json: bool) -> None:
    """The agents that read skills from folders."""
    from skillwire.cli.install_setup import workspace
    from skillwire.cli.output import Screen, counted, padded, show_json
    from skillwire.clients import agents as known_agents
    from skillwire.clients import detect_agents, shares_canonical

    work = workspace(user=user)
    here = {agent.id for agent in detect_agents(work.places, work.scope)}
    rows = [agent for agent in known_agents().values() if everyone or agent.id in here]
    if as_json:
        show_json(
            {
                "agents": [
                    {
                        "id": agent.id,
                        "name": agent.name,
                        "folder": str(folder) if (folder := work.places.folder(agent, work.scope)) else None,
                        "shares_canonical": shares_canonical(agent, work.places, work.scope),
                        "detected": agent.id in here,
                    }
                    for agent in rows
                ]
            }
        )
        return
    screen = Screen()
    widest = max((len(agent.id) for agent in rows), default=0)
    for agent in rows:
        folder = work.places.folder(agent, work.scope)
        screen.line(
            (padded(agent.id, widest), "bold" if agent.id in here else ""),
            f"  {padded(agent.name, 24)}  ",
            (
                _short(folder, work) if folder is not None else "projects only",
                "dim" if folder is None else "",
            ),
        )
    if not everyone:
        known = len(known_agents())
        screen.line(f"{counted(len(rows), 'agent')} here; `skillwire config agents --all` lists {known}.")


def _short(folder: Path, work: Workspace) -> str:
    """A folder as a person would write it: from the project or the home on."""
    from skillwire.cli.output import printable

    root, prefix = (work.places.home, "~/") if work.scope.value == "user" else (work.places.project, "")
    shown = folder.as_posix()
    return printable(prefix + folder.relative_to(root).as_posix() if folder.is_relative_to(root) else shown)


def disable(
    *, names: tuple[str, ...], project: bool, on: str | None, options: HostOptions, as_json: bool
) -> None:
    """Leave skills out: they are not in a model's catalog, and are not loaded."""
    from skillwire.host import project_file, state_paths

    file = project_file() if project else state_paths().config
    skills = _found(names, on, options)
    _write(file, add=[_kept_name(skill) for skill in skills])
    _show("disabled", skills, [file], as_json=as_json)


def enable(*, names: tuple[str, ...], on: str | None, options: HostOptions, as_json: bool) -> None:
    """Use skills again, in every file of the user's or the project's that disables them."""
    from skillwire.cli.output import printable
    from skillwire.host import project_file, state_paths

    skills = _found(names, on, options)
    changed: list[Path] = []
    for skill in skills:
        spellings = {skill.handle, skill.uri, skill.entry.name, _kept_name(skill)}
        files = [file for file in (state_paths().config, project_file()) if _write(file, remove=spellings)]
        if not files:
            raise SkillNotFound(
                f"{printable(skill.handle)} is not disabled by a configuration file: nothing to enable"
            )
        changed += files
    _show("enabled", skills, list(dict.fromkeys(changed)), as_json=as_json)


def _found(names: tuple[str, ...], on: str | None, options: HostOptions) -> list[HostSkill]:
    """The skills of these names, disabled or not."""
    from skillwire.catalog import fold_handle

    async def action(host: SkillHost) -> list[HostSkill]:
        skills: list[HostSkill] = []
        for name in names:
            fold = fold_handle(name)
            known = [skill for skill in host.skills(disabled=True) if on is None or skill.origin.label == on]
            matches = [
                skill
                for skill in known
                if name == skill.uri or fold in (fold_handle(skill.handle), fold_handle(_kept_name(skill)))
            ]
            skills += matches or [await host.find(name, server=on)]
        return skills

    return with_host(options, action, on=on)


def _kept_name(skill: HostSkill) -> str:
    """Return the name that is written to the file: with its server or directory, which means this skill in
    any style.
    """
    return f"{skill.origin.label}/{skill.entry.name}"


def _write(file: Path, *, add: list[str] | None = None, remove: set[str] | None = None) -> bool:
    """Change the list of disabled skills of a file; false when there was nothing to change."""
    from skillwire.catalog import fold_handle
    from skillwire.cli.trust import write_project
    from skillwire.host import read_config, with_disabled

    before = read_config(file)
    listed = list(before.disabled) if before is not None else []
    gone = {fold_handle(name) for name in remove or ()}
    wanted: list[str] = [*listed, *(name for name in add or () if name not in listed)]
    after = [name for name in wanted if fold_handle(name) not in gone]
    if after == listed:
        return False
    write_project(file, before, with_disabled(before.text if before is not None else "", after, file=file))
    return True


def _show(what: str, skills: list[HostSkill], files: list[Path], *, as_json: bool) -> None:
    from skillwire.cli.output import Screen, origin_words, printable, show_json

    if as_json:
        show_json({what: [_kept_name(skill) for skill in skills], "files": [str(file) for file in files]})
        return
    for skill in skills:
        where = ", ".join(printable(str(file)) for file in files)
        Screen().line(f"{skill.handle} from {origin_words(skill.origin)} is {what} in {where}.")


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
