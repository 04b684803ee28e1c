"""A policy file: every key, and every bad value with what is said about it."""

from __future__ import annotations

import textwrap

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from publishers import new_key
from skillwire.errors import FormatError
from skillwire.host.config.file import parse_policy
from skillwire.trust import FindingLevel
from skillwire.trust.policy import LayerKind, Permission

PEM = new_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().strip()
HEAD = '[policy]\nformat = 1\nname = "acme"\n'
DIGEST = "sha256:" + "0" * 64
KEY = f'"""\n{PEM}\n"""'


def test_every_key_is_read() -> None:
    text = f"""
    [policy]
    format = 1
    name = "acme"
    contact = "security@example.org"
    mode = "report"
    from = "https://skills.example.org/policy.toml"
    keys = [{KEY}]
    serial = 3
    expires = 2030-01-31T00:00:00Z
    grace_days = 3
    [registries]
    acme = "https://registry.example.org"
    [sources]
    allow = ["registry:acme/*", "folder:project"]
    deny = ["*/experimental/*"]
    [publishers.security-team]
    keys = [{KEY}]
    require = ["git+https://*"]
    [permissions.tools]
    "Bash*" = "never"
    [permissions.scripts]
    "*" = "sandbox-only"
    [scanners.secrets]
    command = ["/usr/bin/scan", "--sarif", "/skill"]
    reads = ["/opt/rules"]
    refuse = "warning"
    timeout = 5
    [approvals]
    by = ["user", "security-team"]
    feed = "https://skills.example.org/approvals.json"
    [revoked]
    "{DIGEST}" = "leaks keys"
    feed = "https://skills.example.org/revoked.json"
    by = "security-team"
    """
    file = parse_policy(textwrap.dedent(text), kind=LayerKind.MACHINE, place="/etc/p")
    layer = file.layer
    assert (layer.name, layer.contact, layer.reports_only) == ("acme", "security@example.org", True)
    assert (file.address, file.serial, file.grace.days) == ("https://skills.example.org/policy.toml", 3, 3)
    assert file.expires is not None
    assert file.expires.year == 2030
    assert file.keys == file.revoked_by
    assert layer.allow is not None
    assert layer.allow.texts == ("registry:acme/*", "folder:project")
    assert layer.deny.texts == ("*/experimental/*",)
    [publisher] = layer.publishers
    assert publisher.require.texts == ("git+https://*",)
    assert next(iter(publisher.signers)).startswith("key:")
    assert [level for _, level in layer.tools] == [Permission.NEVER]
    assert [level for _, level in layer.scripts] == [Permission.SANDBOX_ONLY]
    [scanner] = layer.scanners
    assert (scanner.name, scanner.command) == ("secrets", ("/usr/bin/scan", "--sarif", "/skill"))
    assert (scanner.reads, scanner.refuse, scanner.seconds) == (("/opt/rules",), FindingLevel.WARNING, 5)
    assert layer.by == ("user", "security-team")
    assert layer.revoked == {DIGEST: "leaks keys"}
    assert (file.revoked_feed, file.approvals_feed) == (
        "https://skills.example.org/revoked.json",
        "https://skills.example.org/approvals.json",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "policy.format is not 1"),
        ("nonsense", "not TOML"),
        ("[policy]\nformat = 2\nname = 'a'", "policy.format is not 1"),
        ("[policy]\nformat = true\nname = 'a'", "policy.format is not a whole number"),
        ("[policy]\nformat = 1", "policy.name is missing"),
        ("policy = 1", "policy is a number, not a table"),
        (f"{HEAD}contact = 1", "policy.contact is a number, not text"),
        (f"{HEAD}mode = 'off'", "policy.mode has no meaning as 'off'"),
        (f"{HEAD}enabled = false", "policy.enabled is not known here"),
        (f"{HEAD}[source]\nallow = []", "source is not known here (did you mean sources?)"),
        (f"{HEAD}from = 'ftp://example.org'\nkeys = [{KEY}]", "policy.from is not an http"),
        (f"{HEAD}from = 'https://example.org/p'", "policy.from and keys belong together"),
        (f"{HEAD}keys = [{KEY}]", "policy.from and keys belong together"),
        (f"{HEAD}from = 'https://example.org/p'\nkeys = ['x']", "policy.keys has one that is not a public"),
        (f"{HEAD}keys = 'x'", "policy.keys is not a list of texts"),
        (f"{HEAD}serial = 0", "policy.serial is not a whole number"),
        (f"{HEAD}expires = '2030'", "policy.expires is not a time with an offset"),
        (f"{HEAD}expires = 2030-01-01T00:00:00", "policy.expires is not a time with an offset"),
        (f"{HEAD}grace_days = 400", "policy.grace_days is not a whole number from 1 to 365"),
        (f"{HEAD}[sources]\nallow = 'https://*'", "sources.allow is not a list of texts"),
        (
            f"{HEAD}[sources]\nallow = ['docs.example.org']",
            "sources.allow has 'docs.example.org', which names",
        ),
        (f"{HEAD}[sources]\ndeny = ['acme/*']", "sources.deny has 'acme/*', which names no source"),
        (f"{HEAD}[sources]\nallow = ['registry:acme/*']", "sources.allow names the registry acme"),
        (f"{HEAD}[sources]\nallow = ['*{'a' * 50000}']", "sources.allow has a pattern that is too long"),
        (f"{HEAD}[sources]\nallowed = []", "sources.allowed is not known here"),
        (f"{HEAD}[registries]\nacme = 'registry.example.org'", "registries.acme is not an http"),
        (f"{HEAD}[registries]\nacme = 1", "registries is not a table of texts"),
        (f"{HEAD}[publishers.a]\nrequire = ['*']", "publishers.a.keys is missing"),
        (f"{HEAD}[publishers.a]\nkeys = ['/etc/key.pem']", "publishers.a.keys has one that is not a public"),
        (f"{HEAD}[publishers.a]\nkeys = [{KEY}]\nrequire = ['b']", "publishers.a.require has 'b'"),
        (f"{HEAD}[publishers.a]\nkeys = [{KEY}]\nroot = 'x'", "publishers.a.root is not known here"),
        (f"{HEAD}[publishers.user]\nkeys = [{KEY}]", "publishers.user has the name of the person"),
        (f"{HEAD}[permissions]\ntools = 'never'", "permissions.tools is not a table of texts"),
        (f"{HEAD}[permissions.tools]\nBash = 'deny'", "permissions.tools.Bash is 'deny'"),
        (f"{HEAD}[permissions.scripts]\n'*' = 'sandbox'", "permissions.scripts.* is 'sandbox'"),
        (f"{HEAD}[permissions.files]\n'*' = 'never'", "permissions.files is not known here"),
        (f"{HEAD}[approvals]\nby = []", "approvals.by is empty"),
        (f"{HEAD}[approvals]\nby = ['security-team']", "approvals.by names security-team, which is not"),
        (f"{HEAD}[approvals]\nfeed = 'approvals.json'", "approvals.feed is not an http"),
        (f"{HEAD}[revoked]\nsha1 = 'x'", "revoked.sha1 is not a digest"),
        (f"{HEAD}[revoked]\n'{DIGEST}' = true", "revoked is not a table of texts"),
        (f"{HEAD}[revoked]\nfeed = 'https://example.org/r'", "revoked.by does not name a publisher"),
        (f"{HEAD}scanners = 1", "policy.scanners is not known here"),
        (f"{HEAD}[scanners]\ns = 1", "scanners.s is a number, not a table"),
        (f"{HEAD}[scanners.s]", "scanners.s.command is missing"),
        (f"{HEAD}[scanners.s]\ncommand = '/s'", "scanners.s.command is not a list of texts"),
        (f"{HEAD}[scanners.s]\ncommand = ['s']", "command does not begin with the absolute path"),
        (f"{HEAD}[scanners.s]\ncommand = ['/a/../s']", "command does not begin with the absolute path"),
        (f'{HEAD}[scanners.s]\ncommand = ["/s", "\\u0000"]', "scanners.s.command has a NUL character"),
        (f"{HEAD}[scanners.'a b']\ncommand = ['/s']", "scanners.a b has a name that is not of letters"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\nreads = ['rules']", "scanners.s.reads has one that is not"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\nreads = ['/']", "scanners.s.reads has one that cannot"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\nreads = ['/proc/1']", "reads has one that cannot be"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\nreads = ['/tmp']", "reads has one that cannot be"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\nrefuse = 'none'", "scanners.s.refuse has no meaning as"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\ntimeout = 0", "timeout is not a number of seconds"),
        (f"{HEAD}[scanners.s]\ncommand = ['/s']\nnetwork = true", "scanners.s.network is not known here"),
    ],
)
def test_every_bad_value_is_named(text: str, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_policy(text, kind=LayerKind.MACHINE, place="/etc/skillwire/policy.toml")
    assert said in str(caught.value)
    assert "/etc/skillwire/policy.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (LayerKind.USER, f"{HEAD}from = 'https://example.org/p'\nkeys = [{KEY}]", "of the machine alone"),
        (LayerKind.PROJECT, f"{HEAD}[scanners.s]\ncommand = ['/s']\nreads = ['/opt']", "of a project"),
        (LayerKind.ORGANIZATION, HEAD, "has no serial or no expires"),
        (LayerKind.ORGANIZATION, f"{HEAD}serial = 1", "has no serial or no expires"),
    ],
)
def test_some_keys_belong_to_one_layer(kind: LayerKind, text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        parse_policy(text, kind=kind, place="p")
