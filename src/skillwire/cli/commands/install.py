"""The commands that install skills into the folders that agents read."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import Argument, command, flag, path, text, texts

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


COMMANDS: Final = (
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
