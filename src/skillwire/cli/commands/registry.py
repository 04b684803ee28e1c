"""The commands of a registry: versions of skills in a database, for many readers and publishers."""

from __future__ import annotations

from typing import Final

from skillwire.cli.command import JSON, Argument, Command, Group, choice, flag, integer, path, text

REGISTRY_TOKEN_VARIABLE: Final = "SKILLWIRE_REGISTRY_TOKEN"  # noqa: S105 - the name of a variable
STORE_VARIABLE: Final = "SKILLWIRE_STORE"

_STORE: Final = text(
    "--store",
    metavar="URL",
    help="The database: postgresql://USER@HOST/NAME or sqlite:///FILE. "
    f"{STORE_VARIABLE} in the environment works too. The default is sqlite:///registry.db.",
)
_SKILL: Final = Argument(field="skill", metavar="NAMESPACE/NAME", help="The skill.")
_VERSION: Final = Argument(field="release", metavar="VERSION", help="The version, as in 1.2.0.")
_CHANNEL: Final = text("--channel", metavar="NAME", help="The channel. The default is stable.")

GROUPS: Final = (Group(name="registry", summary="Run a registry of skills", default="registry check"),)
COMMANDS: Final = (
    Command(
        name="publish",
        summary="Publish skills to a registry",
        about="Each skill is linted, then only the files that the registry lacks are sent. The version "
        "becomes visible whole, and the channel points to it. Publishing the same files again changes "
        "nothing; other files under the same version are refused. The version is the frontmatter's "
        f"metadata.version. The token comes from {REGISTRY_TOKEN_VARIABLE}.",
        run="registry:publish",
        arguments=(
            Argument(
                field="paths",
                metavar="PATH",
                help="The directory of a skill.",
                many=True,
                completion="directory",
            ),
        ),
        options=(
            text("--to", metavar="URL", help="The registry, as in https://registry.example."),
            _STORE,
            text(
                "--namespace",
                metavar="NAME",
                help="Where to publish. It can be left out if your token is for one namespace.",
            ),
            _CHANNEL,
            text("--release", metavar="VERSION", help="The version, instead of the frontmatter's."),
            path("--sign-key", help="Sign each skill with this private key first."),
            JSON,
        ),
        examples=(
            ("skillwire publish ./skills/pdf --to https://registry.example", "to the channel stable"),
            (
                "skillwire publish ./skills/pdf --store sqlite:///registry.db --namespace acme",
                "without a server",
            ),
        ),
    ),
    Command(
        name="registry init",
        summary="Create a registry, or migrate one of an earlier version",
        run="registry:init",
        options=(_STORE, JSON),
        examples=(
            ("skillwire registry init", "registry.db in this directory"),
            ("skillwire registry init --store postgresql://skills@db.example/skills", "on PostgreSQL"),
        ),
    ),
    Command(
        name="registry tokens",
        summary="Add, list or revoke tokens",
        about="A new token is printed once; the registry keeps a hash of it. A token can do what it was "
        "granted, with --role here or with skillwire registry grant later.",
        run="registry:tokens",
        arguments=(
            Argument(
                field="action",
                metavar="ACTION",
                help="add, list or revoke.",
                choices=("add", "list", "revoke"),
                required=False,
            ),
            Argument(field="name", metavar="NAME", help="The name of the token.", required=False),
        ),
        options=(
            choice("--role", choices=("read", "publish", "admin"), help="What the new token may do."),
            text("--namespace", metavar="NAME", help="Where. The default is every namespace."),
            _CHANNEL,
            _STORE,
            JSON,
        ),
        examples=(
            ("skillwire registry tokens add ci --role publish --namespace acme", "prints the token once"),
            ("skillwire registry tokens revoke ci", "it ends within a second"),
        ),
    ),
    Command(
        name="registry namespace",
        summary="Create a namespace, or set its quota and required signer",
        run="registry:namespace",
        arguments=(Argument(field="name", metavar="NAME", help="The namespace."),),
        options=(
            integer("--quota-mb", help="How many megabytes its files may have.", least=0),
            text(
                "--signer",
                metavar="NAME",
                help="Take only what this publisher signed. Needs --key or --root.",
            ),
            path("--key", help="The publisher's public key, in PEM."),
            path("--root", help="The publisher's root certificate, in PEM."),
            _STORE,
            JSON,
        ),
        examples=(
            ("skillwire registry namespace acme --quota-mb 500", ""),
            ("skillwire registry namespace acme --signer acme --key acme.pub", "unsigned skills are refused"),
        ),
    ),
    Command(
        name="registry grant",
        summary="Give somebody a role, or take it away",
        about="SUBJECT is token:NAME, user:SUBJECT or group:NAME of your identity provider, or anyone. Roles "
        "are read, publish, admin and none.",
        run="registry:grant",
        arguments=(
            Argument(field="subject", metavar="SUBJECT", help="Who."),
            Argument(
                field="role",
                metavar="ROLE",
                help="What they may do.",
                choices=("read", "publish", "admin", "none"),
            ),
        ),
        options=(
            text("--namespace", metavar="NAME", help="Where. The default is every namespace."),
            _STORE,
            JSON,
        ),
        examples=(
            ("skillwire registry grant group:writers publish --namespace acme", ""),
            ("skillwire registry grant anyone read --namespace open", "no token is needed to read"),
        ),
    ),
    Command(
        name="registry versions",
        summary="List the versions of a skill and the channels that point to them",
        run="registry:versions",
        arguments=(_SKILL,),
        options=(_STORE, JSON),
        examples=(("skillwire registry versions acme/pdf", ""),),
    ),
    Command(
        name="registry promote",
        summary="Let a channel point to a version",
        run="registry:promote",
        arguments=(_SKILL, _VERSION),
        options=(_CHANNEL, _STORE, JSON),
        examples=(("skillwire registry promote acme/pdf 1.2.0 --channel stable", ""),),
    ),
    Command(
        name="registry yank",
        summary="Withdraw a version",
        about="No channel lists it any more. Whoever pinned it can still read it, and sees the reason.",
        run="registry:yank",
        arguments=(_SKILL, _VERSION),
        options=(text("--reason", metavar="TEXT", help="Why. Readers see it."), _STORE, JSON),
        examples=(("skillwire registry yank acme/pdf 1.1.0 --reason leaks-a-key", ""),),
    ),
    Command(
        name="registry prune",
        summary="Delete old versions and files that nothing needs",
        about="Versions that a channel points to and withdrawn versions stay. Whoever pinned a deleted "
        "version can no longer fetch it.",
        run="registry:prune",
        options=(
            integer("--keep", help="Keep the newest N versions of each skill.", default=10, least=1),
            _STORE,
            JSON,
        ),
        examples=(("skillwire registry prune --keep 20", ""),),
    ),
    Command(
        name="registry audit",
        summary="Show who did what, or check that the log is whole",
        run="registry:audit",
        options=(
            flag(
                "--verify", help="Check the chain of hashes. Exits with 6 if a line was changed or removed."
            ),
            integer("--after", help="Only lines after this number.", default=0, least=0),
            _STORE,
            JSON,
        ),
        examples=(("skillwire registry audit --verify", ""),),
    ),
    Command(
        name="registry backup",
        summary="Write everything into one file",
        run="registry:backup",
        arguments=(Argument(field="file", metavar="FILE", help="A new file.", kind="path"),),
        options=(_STORE, JSON),
        examples=(("skillwire registry backup registry.backup", "works across PostgreSQL and SQLite"),),
    ),
    Command(
        name="registry restore",
        summary="Fill an empty registry from a backup",
        run="registry:restore",
        arguments=(
            Argument(field="file", metavar="FILE", help="What `registry backup` wrote.", kind="path"),
        ),
        options=(_STORE, JSON),
        examples=(("skillwire registry restore registry.backup --store sqlite:///new.db", ""),),
    ),
    Command(
        name="registry check",
        summary="Check that every file is there and as its digest says",
        run="registry:check",
        options=(_STORE, JSON),
        examples=(("skillwire registry check", "exits with 6 if something is damaged"),),
    ),
    Command(
        name="registry push-oci",
        summary="Copy a version into any OCI registry",
        about="The user name and password come from OCI_USERNAME and OCI_PASSWORD.",
        run="registry:push_oci",
        arguments=(
            _SKILL,
            _VERSION,
            Argument(field="reference", metavar="HOST/REPOSITORY:TAG", help="Where to push it."),
        ),
        options=(_STORE, JSON),
        examples=(("skillwire registry push-oci acme/pdf 1.2.0 ghcr.io/acme/pdf:1.2.0", ""),),
    ),
)
