"""The commands of a registry: versions of skills in a database, for many readers and publishers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skillwire.cli.command import Argument, Command, Option, choice, command, flag, number, path, text
from skillwire.cli.commands import PASSWORD, action

REGISTRY_TOKEN_VARIABLE: Final = "SKILLWIRE_REGISTRY_TOKEN"  # noqa: S105 - the name of a variable
STORE_VARIABLE: Final = "SKILLWIRE_STORE"

_STORE: Final = text(
    "--store URL",
    "The database: postgresql://USER@HOST/NAME or sqlite:///FILE. "
    f"{STORE_VARIABLE} in the environment works too. The default is sqlite:///registry.db.",
)
_TO: Final = text(
    "--to URL",
    "The registry instead of its database, as in https://registry.example, with the token of an "
    f"administrator in {REGISTRY_TOKEN_VARIABLE}.",
)
_SKILL: Final = Argument("skill", "NAMESPACE/NAME", "The skill.")
_VERSION: Final = Argument("release", "VERSION", "The version, as in 1.2.0.")
_CHANNEL: Final = text("--channel NAME", "The channel. The default is stable.")


def _on_store(name: str, help: str, *takes: Argument | Option, examples: Mapping[str, str]) -> Command:
    """A command for the operators of a registry. Its function has the name of the command."""
    function = {"list": "list_"}.get(name.removeprefix("registry "), name.removeprefix("registry "))
    return command(name, f"registry:{function}", help, *takes, _STORE, examples=examples)


def _administration(name: str, help: str, *takes: Argument | Option, examples: Mapping[str, str]) -> Command:
    """A command that operators run on the database, and administrators over HTTP."""
    return _on_store(name, help, *takes, _TO, examples=examples)


COMMANDS: Final = (
    command(
        "publish",
        "authoring:publish",
        "Publish skills to a registry\n\n"
        "A path is a skill, or a folder of skills; nested skills are published too, each as a skill of its "
        "own. What lint calls an error is not published, and the others are. Only the files that the "
        "registry does not have are sent. The "
        "version becomes visible in one step, and the channel points to it, unless the channel has a later "
        "one. Publishing the same files again changes nothing; other files under the same version are "
        "refused, also after it was deleted. The version is the frontmatter's "
        f"metadata.version. The token is read from {REGISTRY_TOKEN_VARIABLE}.",
        Argument("paths", "PATH", "A skill, or a folder of skills.", many=True, completion="directory"),
        text("--to URL", "The registry, as in https://registry.example."),
        text(
            "--store URL",
            "The registry's database instead, for its operators: postgresql://USER@HOST/NAME or "
            f"sqlite:///FILE. Without --to, {STORE_VARIABLE} in the environment works too.",
        ),
        text("--namespace NAME", "Where to publish. It can be left out if your token is for one namespace."),
        _CHANNEL,
        text("--release VERSION", "The version, instead of the frontmatter's."),
        flag("--promote", "Let the channel point to it.", default=True),
        text(
            "--expect VERSION",
            "Publish only if the channel points to this version now, and move it, forward or back.",
        ),
        path("--sign-key FILE", "Sign each skill with this private key first."),
        path("--policy FILE", "Also obey this policy; with --store only. Repeatable.", many=True),
        examples={
            "skillwire publish ./skills/pdf --to https://registry.example": "to the channel stable",
            "skillwire publish ./skills --to https://registry.example": "every skill in a folder",
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
    _administration(
        "registry list",
        "List namespaces, skills, versions, or what is revoked\n\n"
        "A namespace is listed with the version that each channel has of its skills, a skill with all its "
        "versions and the channels that point to them.",
        Argument("what", "NAMESPACE[/NAME]", "A namespace, or a skill.", required=False),
        flag("--revoked", "List the digests that are revoked, and what hosts were told of them."),
        examples={
            "skillwire registry list": "namespaces with skills, versions, size, quota and required signer",
            "skillwire registry list acme": "the skills of a namespace",
            "skillwire registry list acme/pdf": "the versions of a skill",
            "skillwire registry list --revoked": "",
        },
    ),
    _administration(
        "registry tokens",
        "Add, list or revoke tokens\n\n"
        "A new token is printed once; the registry keeps a hash of it. A token can do what it was "
        "granted, with --role here or with skillwire registry grants later.",
        action("add", "list", "revoke"),
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
        number("--quota-mb N", "How many megabytes its files may take up.", least=0),
        text("--signer NAME", "Accept only what this publisher signed. Needs --key or --root."),
        path("--key FILE", "The publisher's public key, in PEM."),
        path("--root FILE", "The publisher's root certificate, in PEM."),
        examples={
            "skillwire registry namespace acme --quota-mb 500": "",
            "skillwire registry namespace acme --signer acme --key acme.pub": "unsigned skills are refused",
        },
    ),
    _administration(
        "registry grants",
        "List who may do what, and grant or revoke roles\n\n"
        "SUBJECT is token:NAME, user:SUBJECT or group:NAME of your identity provider, or anyone. A subject "
        "has one role in a namespace: the one that was added last.",
        action("list", "add", "revoke"),
        Argument("subject", "SUBJECT", "Who.", required=False),
        Argument(
            "role",
            "ROLE",
            "With add: what they may do, read, publish or admin.",
            choices=("read", "publish", "admin"),
            required=False,
        ),
        text("--namespace NAME", "Where. The default is a role for every namespace."),
        examples={
            "skillwire registry grants": "all of them",
            "skillwire registry grants add group:writers publish --namespace acme": "",
            "skillwire registry grants add anyone read --namespace open": "no token is needed to read",
            "skillwire registry grants revoke group:writers --namespace acme": "",
        },
    ),
    _administration(
        "registry uploads",
        "List or drop files that were sent and not published\n\n"
        "They count against the quota of whoever sent them, and are dropped after a day.",
        action("list", "drop"),
        text("--namespace NAME", "With drop: the namespace."),
        text("--sender WHO", "With drop: who sent them, as the list shows it."),
        examples={
            "skillwire registry uploads": "",
            "skillwire registry uploads drop --namespace acme --sender token:ci": "",
        },
    ),
    _administration(
        "registry promote",
        "Point a channel at a version",
        _SKILL,
        _VERSION,
        _CHANNEL,
        examples={"skillwire registry promote acme/pdf 1.2.0 --channel stable": ""},
    ),
    _administration(
        "registry yank",
        "Withdraw a version\n\n"
        "Channels no longer list it. Clients that pinned it can still read it, and see the reason.",
        _SKILL,
        _VERSION,
        text("--reason TEXT", "Why. Readers see it."),
        examples={"skillwire registry yank acme/pdf 1.1.0 --reason leaks-a-key": ""},
    ),
    _administration(
        "registry revoke",
        "Refuse a version, or any digest, from now on\n\n"
        "The registry no longer serves it, not even to clients that pinned it, and accepts nothing that has "
        "the digest. Listings show the reason. TARGET is NAMESPACE/NAME@VERSION, NAMESPACE/NAME for the "
        "versions that there are, or sha256:DIGEST of a skill or of a file. With --sign, hosts whose policy "
        "has the feed of this registry refuse it too, also where it is installed: the list is signed here, "
        "and the registry never has the private key. Anyone can read the list, with its reasons. Sign it "
        "again before it expires, without TARGET.",
        Argument("target", "TARGET", "What is revoked.", required=False),
        text("--reason TEXT", "Why. Whoever is refused sees it."),
        flag("--undo", "Take a revocation back."),
        path("--sign KEY", "Sign the list with this private key, as `skillwire sign --new-key` makes one."),
        PASSWORD,
        number("--days N", "How long the signed list is valid.", default=90, least=1),
        examples={
            "skillwire registry revoke acme/pdf@1.1.0 --reason leak --sign key.pem": "",
            "skillwire registry revoke acme/pdf@1.1.0 --reason leak": "the registry alone refuses it",
            "skillwire registry revoke acme/pdf@1.1.0 --undo --sign key.pem": "",
            "skillwire registry revoke --sign key.pem": "sign the list anew, also an empty one",
        },
    ),
    _administration(
        "registry prune",
        "Delete old versions and files that nothing needs\n\n"
        "Versions that a channel points to, withdrawn and revoked versions stay. Clients that pinned a "
        "deleted version can no longer fetch it. It works in small steps: publications go on beside it, and "
        "after an interruption the next call continues.",
        number("--keep N", "Keep the newest N versions of each skill.", default=10, least=1),
        examples={"skillwire registry prune --keep 20": ""},
    ),
    _on_store(
        "registry audit",
        "Show who did what, or check that nothing was changed",
        flag("--verify", "Check the chain of hashes. Exits with 6 if a line was changed or removed."),
        flag("--gateways", "Show the lines of the gateways that use this store instead."),
        number("--after N", "Only lines of the registry after this number.", default=0, least=0),
        examples={
            "skillwire registry audit --verify": "",
            "skillwire registry audit --gateways": "who read which skill through a gateway",
        },
    ),
    _on_store(
        "registry backup",
        "Write the whole registry to one file\n\n"
        "Publications go on beside it. After an interruption, the same command continues with FILE.part.",
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
        "Check that every file is present and matches its digest\n\n"
        "Publications go on beside it. After an interruption it says how to continue.",
        text("--after POSITION", "Continue a check that was interrupted."),
        examples={"skillwire registry check": "exits with 6 if something is damaged"},
    ),
)
