"""One predicate says what belongs to a skill; credentials never do; a name's ending gives its media type."""

from __future__ import annotations

import pytest

from skillwire.skill import belongs_to_skill, media_type
from skillwire.skill.files import holds_private_key, is_credential_name, is_linkable, may_hold_private_key


@pytest.mark.requirement("FMT-1")
@pytest.mark.parametrize(
    "name",
    [
        "SKILL.md", "scripts", "run.py", ".hidden", ".gitkeep", "a~b", "swap.swift", "#tag", "c#.md",
        "_.txt", "x.pyi", ".env.example", ".env.sample", "example.env", ".env.local.template",
        "environment.md", "keys.md", "server.pem", "credentials.md", "id_rsa.pub", "token.py",
        "credentials.example.json",
    ],
)  # fmt: skip
def test_anything_in_the_directory_belongs_to_the_skill(name: str) -> None:
    assert belongs_to_skill(name)


@pytest.mark.parametrize(
    "name",
    [
        ".git", ".gitignore", ".gitattributes", ".github", ".hg", ".svn", ".jj", "_darcs", "CVS",
        "__pycache__", "node_modules", ".venv", ".ruff_cache", "mod.pyc",
        ".DS_Store", "Thumbs.db", ".idea", "notes.md~", ".notes.md.swp", ".#notes.md", "#notes.md#",
        "._a", "~$a.docx", ".a.kate-swp",
    ],
)  # fmt: skip
def test_version_control_caches_and_editor_files_do_not(name: str) -> None:
    assert not belongs_to_skill(name)
    assert not is_credential_name(name)


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".ENV", ".env.local", ".env.production", "prod.env", ".envrc", ".npmrc", ".netrc", "_netrc",
        ".pypirc", ".git-credentials", "id_rsa", "id_ed25519", ".ssh", ".aws", ".kube", "key.p12", "cert.pfx",
        "release.keystore", "login.kdbx", "key.ppk", "credentials.json", "my-service-account.json",
        "client_secret_12.json", "application_default_credentials.json", ".pgpass", "terraform.tfstate",
    ],
)  # fmt: skip
def test_credentials_never_belong_to_a_skill(name: str) -> None:
    assert is_credential_name(name)
    assert not belongs_to_skill(name)
    assert not is_linkable(name)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("key.pem", b"-----BEGIN PRIVATE KEY-----\nMII", True),
        ("key.pem", b"text before\n-----BEGIN RSA PRIVATE KEY-----\nMII", True),
        ("key.key", b"-----BEGIN OPENSSH PRIVATE KEY-----\n", True),
        ("key.key", b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", True),
        ("key.json", b'{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}', True),
        ("key.json", b'{"private_key": "a field of a schema"}', False),
        ("ca.pem", b"-----BEGIN CERTIFICATE-----\nMII", False),
        ("pub.pem", b"-----BEGIN PUBLIC KEY-----\nMII", False),
    ],
)
def test_the_bytes_of_a_key_file_decide(name: str, data: bytes, expected: bool) -> None:
    assert may_hold_private_key(name)
    assert holds_private_key(data) is expected


def test_a_document_about_keys_is_not_searched_for_them() -> None:
    assert not may_hold_private_key("how-to-make-a-key.md")


@pytest.mark.parametrize("name", [".git", ".svn"])
def test_no_link_leads_into_version_control(name: str) -> None:
    assert not is_linkable(name)


@pytest.mark.parametrize("name", ["node_modules", ".agents", "skills", "shared.md"])
def test_a_link_may_lead_through_other_directories(name: str) -> None:
    assert is_linkable(name)


@pytest.mark.requirement("FMT-7")
@pytest.mark.parametrize(
    ("expected", "names"),
    [
        ("text/markdown", ["SKILL.md", "README.MD", "http://x/y.md"]),
        ("text/x-python", ["run.py"]),
        ("application/json", ["data.json"]),
        ("application/yaml", ["a.b.yaml"]),
        ("image/svg+xml", ["logo.svg"]),
        ("audio/mpeg", ["sound.mp3"]),
        ("application/gzip", ["archive.tar.gz"]),
        ("application/xml", ["schema.xsd"]),
        ("text/x-typescript", ["App.tsx"]),
        ("text/x-go", ["main.go"]),
        ("text/plain", ["install.ps1", ".env.example", "Makefile", "LICENSE"]),
        ("application/octet-stream", ["program", "odd.unheard-of", ".", "trailing.", "data:text/html,x"]),
    ],
)
def test_an_ending_has_a_media_type(expected: str, names: list[str]) -> None:
    assert {name: media_type(name) for name in names} == dict.fromkeys(names, expected)
