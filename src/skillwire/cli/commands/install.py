"""The commands that install skills into the folders that agents read."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, Option, flag, text

_USER: Final = flag("--user", "Your own skills, for every project, instead of this project's.")
_YES: Final = flag("--yes -y", "Accept exactly what is shown, without being asked.")
_AGENT: Final = text(
    "--agent ID",
    "Also link it for this agent instead of those that are found here. Repeatable.",
    field="agent_ids",
    many=True,
    completion="agent",
)
_COPY: Final = flag("--copy", "Give agents with folders of their own a copy instead of a link.")
_FORCE: Final = flag("--force", "Overwrite folders that were edited or that something else created.")
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


def _common(*options: Option) -> tuple[Option, ...]:
    return (*options, _USER, JSON)


COMMANDS: Final = (
    Command(
        "add",
        "Install skills, and pin them in skillwire.lock",
        "install:add",
        about="Skills of MCP servers, sites, git repositories, folders and Python packages. Shows what "
        "would be installed, asks, writes it to .agents/skills and pins every file. Tools and scripts need "
        "their own grants; a skill that has them is not installed without.",
        host=True,
        arguments=(
            Argument(
                "sources",
                "SOURCE",
                "SERVER/SKILL, SERVER, https://SITE, git+URL#REF:PATH, a folder, an archive, or a lock "
                "file of another tool.",
                required=False,
                many=True,
            ),
        ),
        options=_common(
            flag("--installed", "The skills that installed Python packages carry."),
            text("--skill NAME", "Only the skills of this name. Repeatable.", many=True),
            *_GRANTS,
            _AGENT,
            _COPY,
            _FORCE,
            _YES,
        ),
        examples=(
            ("skillwire add docs/release-notes", "one skill of a configured server"),
            ("skillwire add https://example.org", "every skill that a site lists"),
            ("skillwire add git+https://git.example/skills#v1.2:pdf", "a folder of a repository, at a tag"),
            ("skillwire add ./team-skills --yes", "a folder, without being asked"),
            ("skillwire add ./skills-lock.json", "what `npx skills` installed"),
        ),
    ),
    Command(
        "sync",
        "Install exactly what skillwire.lock pins",
        "sync:sync",
        about="The first time in a project it shows what the lock would install and asks once. A folder "
        "that was edited is left alone. Exits with 10 if something differs, 11 if only part was installed, "
        "and 12 if something was refused.",
        host=True,
        options=_common(
            flag("--check", "Only report what differs; every file is hashed."),
            flag("--frozen", "For CI: never change the lock, and fail if anything differs from it."),
            flag("--adopt", "Pin what was edited by hand, as it is on disk."),
            _FORCE,
            _COPY,
            _YES,
        ),
        examples=(
            ("skillwire sync", "on a new machine, this is all"),
            ("skillwire sync --frozen --yes", "in CI: install exactly this"),
            ("skillwire sync --check", "in CI: say what differs"),
        ),
    ),
    Command(
        "outdated",
        "List installed skills that changed at their source",
        "installed:outdated",
        about="Exits with 10 if there are any.",
        host=True,
        arguments=(_NAMES,),
        options=_common(),
        examples=(("skillwire outdated", "every source is asked, side by side"),),
    ),
    Command(
        "diff",
        "Show what changed at the source of a skill",
        "installed:diff",
        about="Shows files, text, and new permissions that it asks for.",
        host=True,
        arguments=(_ONE,),
        options=_common(flag("--local", "Compare with the folder on disk instead.")),
        examples=(
            ("skillwire diff release-notes", "before an update"),
            ("skillwire diff release-notes --local", "what was edited by hand"),
        ),
    ),
    Command(
        "update",
        "Install what the sources of skills have now",
        "install:update",
        about="Shows the changes, asks, and pins it.",
        host=True,
        arguments=(_NAMES,),
        options=_common(*_GRANTS, _COPY, _FORCE, _YES),
        examples=(
            ("skillwire update", "all of them"),
            ("skillwire update release-notes --yes", "one, without being asked"),
        ),
    ),
    Command(
        "rollback",
        "Restore an earlier version of a skill",
        "install:rollback",
        about="Uses the copies on this machine: no source is contacted, and every file is verified again.",
        arguments=(_ONE,),
        options=_common(text("--to DIGEST", "This version; the beginning of its digest is enough."), _FORCE),
        examples=(
            ("skillwire rollback release-notes", "the version before"),
            ("skillwire rollback release-notes --to 3f2a90", "a version that `skillwire why` lists"),
        ),
    ),
    Command(
        "remove",
        "Remove installed skills from all folders",
        "install:remove",
        arguments=(
            Argument("names", "NAME", "The name of an installed skill.", many=True, completion="skill"),
        ),
        options=_common(_FORCE),
        examples=(("skillwire remove release-notes", "its versions stay, to roll back to"),),
    ),
    Command(
        "why",
        "Show where an installed skill came from",
        "installed:why",
        host=True,
        arguments=(
            _ONE._replace(required=False, help="The name of an installed skill. Without it, all are listed."),
        ),
        options=_common(),
        examples=(
            ("skillwire why", "all that is installed, and where from"),
            ("skillwire why release-notes", "source, pin, powers, signature, versions"),
        ),
    ),
    Command(
        "export",
        "Write a verified copy of installed skills",
        "installed:export",
        about="The same lock always gives the same archive, byte for byte.",
        arguments=(
            Argument(
                "place", "DIR | FILE.tar.gz", "A new folder, or an archive.", kind="path", completion="file"
            ),
        ),
        options=_common(text("--skill NAME", "Only the skills of this name. Repeatable.", many=True)),
        examples=(
            ("skillwire export skills.tar.gz", "all of them, in one file"),
            ("skillwire export ./copy", "as a folder"),
        ),
    ),
    Command(
        "agents",
        "List the agents that read skills from folders",
        "installed:list_agents",
        options=_common(flag("--all", "Include those that are not found here.", field="everyone")),
        examples=(
            ("skillwire agents", "those that are here"),
            ("skillwire agents --all", "every agent that is known"),
        ),
    ),
)
