"""The commands of a registry: versions of skills in a database, for many readers and publishers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillwire.cli.command import Argument, Command, Option, choice, command, flag, integer, path, text

REGISTRY_TOKEN_VARIABLE: Final = "SKILLWIRE_REGISTRY_TOKEN"  # noqa: S105 - the name of a variable
STORE_VARIABLE: Final = "SKILLWIRE_STORE"

_STORE: Final = text(
    "--store URL",
    "The database: postgresql://USER@HOST/NAME or sqlite:///FILE. "
    f"{STORE_VARIABLE} in the environment works too. The default is sqlite:///registry.db.",
)
_SKILL: Final = Argument("skill", "NAMESPACE/NAME", "The skill.")
_VERSION: Final = Argument("release", "VERSION", "The version, as in 1.2.0.")
_CHANNEL: Final = text("--channel NAME", "The channel. The default is stable.")


def _on_store(name: str, help: str, *takes: Argument | Option, examples: Mapping[str, str]) -> Command:
    """A command for the operators of a registry. Its function has the name of the command."""
    function = name.removeprefix("registry ").replace("-", "_")
    return command(name, f"registry:{function}", help, *takes, _STORE, examples=examples)


COMMANDS: Final = (
    command(
        "publish",
        "registry:publish",
        "Publish skills to a registry\n\n"
        "Each skill is linted, then only the files that the registry does not have are sent. The "
        "version becomes visible in one step, and the channel points to it. Publishing the same files again "
        "changes nothing; other files under the same version are refused. The version is the frontmatter's "
        f"metadata.version. The token is read from {REGISTRY_TOKEN_VARIABLE}.",
        Argument("paths", "PATH", "The directory of a skill.", many=True, completion="directory"),
        text("--to URL", "The registry, as in https://registry.example."),
        text(
            "--store URL",
            "The registry's database instead, for its operators: postgresql://USER@HOST/NAME or "
            f"sqlite:///FILE. Without --to, {STORE_VARIABLE} in the environment works too.",
        ),
        text("--namespace NAME", "Where to publish. It can be left out if your token is for one namespace."),
        _CHANNEL,
        text("--release VERSION", "The version, instead of the frontmatter's."),
        path("--sign-key FILE", "Sign each skill with this private key first."),
        examples={
            "skillwire publish ./skills/pdf --to https://registry.example": "to the channel stable",
            "skillwire publish ./skills/pdf --store sqlite:///registry.db --namespace acme": (
                "without a server"
            ),
        },
    ),
    _on_store(
        "registry init",
        "Create a registry, or migrate one of an earlier version",
        examples={
            "skillwire registry init": "registry.db in this directory",
            "skillwire registry init --store postgresql://skills@db.example/skills": "on PostgreSQL",
        },
    ),
    _on_store(
        "registry tokens",
        "Add, list or revoke tokens\n\n"
        "A new token is printed once; the registry keeps a hash of it. A token can do what it was "
        "granted, with --role here or with skillwire registry grant later.",
        Argument(
            "action", "ACTION", "add, list or revoke.", choices=("add", "list", "revoke"), required=False
        ),
        Argument("name", "NAME", "The name of the token.", required=False),
        choice("--role read|publish|admin", "What the new token may do."),
        text("--namespace NAME", "Where. The default is every namespace."),
        _CHANNEL,
        examples={
            "skillwire registry tokens add ci --role publish --namespace acme": "prints the token once",
            "skillwire registry tokens revoke ci": "it ends within a second",
        },
    ),
    _on_store(
        "registry namespace",
        "Create a namespace, or set its quota and required signer",
        Argument("name", "NAME", "The namespace."),
        integer("--quota-mb N", "How many megabytes its files may take up.", least=0),
        text("--signer NAME", "Accept only what this publisher signed. Needs --key or --root."),
        path("--key FILE", "The publisher's public key, in PEM."),
        path("--root FILE", "The publisher's root certificate, in PEM."),
        examples={
            "skillwire registry namespace acme --quota-mb 500": "",
            "skillwire registry namespace acme --signer acme --key acme.pub": "unsigned skills are refused",
        },
    ),
    _on_store(
        "registry grant",
        "Grant or remove a role\n\n"
        "SUBJECT is token:NAME, user:SUBJECT or group:NAME of your identity provider, or anyone. Roles "
        "are read, publish, admin and none.",
        Argument("subject", "SUBJECT", "Who."),
        Argument("role", "ROLE", "What they may do.", choices=("read", "publish", "admin", "none")),
        text("--namespace NAME", "Where. The default is every namespace."),
        examples={
            "skillwire registry grant group:writers publish --namespace acme": "",
            "skillwire registry grant anyone read --namespace open": "no token is needed to read",
        },
    ),
    _on_store(
        "registry versions",
        "List the versions of a skill and the channels that point to them",
        _SKILL,
        examples={"skillwire registry versions acme/pdf": ""},
    ),
    _on_store(
        "registry promote",
        "Point a channel at a version",
        _SKILL,
        _VERSION,
        _CHANNEL,
        examples={"skillwire registry promote acme/pdf 1.2.0 --channel stable": ""},
    ),
    _on_store(
        "registry yank",
        "Withdraw a version\n\n"
        "Channels no longer list it. Clients that pinned it can still read it, and see the reason.",
        _SKILL,
        _VERSION,
        text("--reason TEXT", "Why. Readers see it."),
        examples={"skillwire registry yank acme/pdf 1.1.0 --reason leaks-a-key": ""},
    ),
    _on_store(
        "registry prune",
        "Delete old versions and files that nothing needs\n\n"
        "Versions that a channel points to and withdrawn versions stay. Clients that pinned a "
        "deleted version can no longer fetch it.",
        integer("--keep N", "Keep the newest N versions of each skill.", default=10, least=1),
        examples={"skillwire registry prune --keep 20": ""},
    ),
    _on_store(
        "registry audit",
        "Show who did what, or check that the log is complete",
        flag("--verify", "Check the chain of hashes. Exits with 6 if a line was changed or removed."),
        integer("--after N", "Only lines after this number.", default=0, least=0),
        examples={"skillwire registry audit --verify": ""},
    ),
    _on_store(
        "registry backup",
        "Write the whole registry to one file",
        Argument("file", "FILE", "A new file.", kind="path"),
        examples={"skillwire registry backup registry.backup": "works across PostgreSQL and SQLite"},
    ),
    _on_store(
        "registry restore",
        "Fill an empty registry from a backup",
        Argument("file", "FILE", "A file that `registry backup` wrote.", kind="path"),
        examples={"skillwire registry restore registry.backup --store sqlite:///new.db": ""},
    ),
    _on_store(
        "registry check",
        "Check that every file is present and matches its digest",
        examples={"skillwire registry check": "exits with 6 if something is damaged"},
    ),
    _on_store(
        "registry push-oci",
        "Copy a version into any OCI registry\n\n"
        "The user name and password come from OCI_USERNAME and OCI_PASSWORD.",
        _SKILL,
        _VERSION,
        Argument("reference", "HOST/REPOSITORY:TAG", "Where to push it."),
        examples={"skillwire registry push-oci acme/pdf 1.2.0 ghcr.io/acme/pdf:1.2.0": ""},
    ),
)
