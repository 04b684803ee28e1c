"""`skillwire enable` and `skillwire disable`: skills that are left out, kept in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.errors import SkillNotFound

if TYPE_CHECKING:
    from skillwire.catalog.registry import RegisteredSkill
    from skillwire.host.host import SkillHost


def disable(*, names: tuple[str, ...], project: bool, options: HostOptions, as_json: bool) -> None:
    """Leave skills out: they are not in a model's catalog, and are not loaded."""
    from skillwire.host.config.file import project_file
    from skillwire.host.directories import state_places

    file = project_file() if project else state_places().config
    skills = _found(names, options)
    _write(file, add=[_kept_name(skill) for skill in skills])
    _show("disabled", skills, [file], as_json=as_json)


def enable(*, names: tuple[str, ...], options: HostOptions, as_json: bool) -> None:
    """Use skills again, in every file of the user's or the project's that disables them."""
    from skillwire.cli.output import printable
    from skillwire.host.config.file import project_file
    from skillwire.host.directories import state_places

    skills = _found(names, options)
    changed: list[Path] = []
    for skill in skills:
        spellings = {skill.handle, skill.uri, skill.entry.name, _kept_name(skill)}
        files = [file for file in (state_places().config, project_file()) if _write(file, remove=spellings)]
        if not files:
            raise SkillNotFound(
                f"{printable(skill.handle)} is not disabled by a configuration file: nothing to enable"
            )
        changed += files
    _show("enabled", skills, list(dict.fromkeys(changed)), as_json=as_json)


def _found(names: tuple[str, ...], options: HostOptions) -> list[RegisteredSkill]:
    """The skills of these names, disabled or not."""
    from skillwire.catalog.naming import fold_handle

    async def action(host: SkillHost) -> list[RegisteredSkill]:
        skills: list[RegisteredSkill] = []
        for name in names:
            fold = fold_handle(name)
            known = host.skills(disabled=True)
            matches = [
                skill
                for skill in known
                if name == skill.uri or fold in (fold_handle(skill.handle), fold_handle(_kept_name(skill)))
            ]
            skills += matches or [await host.find(name)]
        return skills

    return with_host(options, action)


def _kept_name(skill: RegisteredSkill) -> str:
    """What is written to the file: the name with its server or directory, which means this skill in any
    style."""
    return f"{skill.origin.label}/{skill.entry.name}"


def _write(file: Path, *, add: list[str] | None = None, remove: set[str] | None = None) -> bool:
    """Change the list of disabled skills of a file; false when there was nothing to change."""
    from skillwire.catalog.naming import fold_handle
    from skillwire.cli.project_trust import write_project
    from skillwire.host.config.edit import with_disabled
    from skillwire.host.config.file import read_config

    before = read_config(file)
    listed = list(before.disabled) if before is not None else []
    gone = {fold_handle(name) for name in remove or ()}
    wanted: list[str] = [*listed, *(name for name in add or () if name not in listed)]
    after = [name for name in wanted if fold_handle(name) not in gone]
    if after == listed:
        return False
    write_project(file, before, with_disabled(before.text if before is not None else "", after, file=file))
    return True


def _show(what: str, skills: list[RegisteredSkill], files: list[Path], *, as_json: bool) -> None:
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, origin_words, show_json

    if as_json:
        show_json({what: [_kept_name(skill) for skill in skills], "files": [str(file) for file in files]})
        return
    for skill in skills:
        where = ", ".join(printable(str(file)) for file in files)
        Screen().line(f"{skill.handle} from {origin_words(skill.origin)} is {what} in {where}.")
