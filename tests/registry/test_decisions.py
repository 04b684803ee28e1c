"""How often admission is asked about a version that is published, and who may publish and run commands."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from skillwire.errors import FormatError, PolicyRefused, SkillNotFound
from skillwire.registry import Administration, Publishing, Store, publish_to_store, read_skill
from skillwire.registry.access import RegistryCaller, Role, RoleMissing, operator
from skillwire.registry.publications import publication_of
from skillwire.registry.revocations import Revocations
from skillwire.trust import AdmissionRequest, Decision, Purpose, admit
from trees import write_skill


@pytest.fixture
def admissions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the skills that admission was asked about."""
    asked: list[str] = []

    def counted(facts: AdmissionRequest, purpose: Purpose) -> Decision:
        asked.append(str(facts.entry.frontmatter["name"]))
        return admit(facts, purpose)

    monkeypatch.setattr(import_module("skillwire.registry.publications"), "admit", counted)
    return asked


def test_a_version_that_is_published_is_decided_about_once(
    store: Store, tmp_path: Path, admissions: list[str]
) -> None:
    folder = read_skill(write_skill(tmp_path / "pdf", {"a.md": b"text"}), "1.0.0")
    assert publish_to_store(folder, store, namespace="acme", by="test").is_new
    assert admissions == ["pdf"]
    again = read_skill(write_skill(tmp_path / "pdf", {"a.md": b"text"}), "1.0.1")
    Revocations(store).revoke("acme/pdf", "leaks keys", by="test")
    with pytest.raises(PolicyRefused, match="leaks keys"):
        publish_to_store(again, store, namespace="acme", by="test")
    assert admissions == ["pdf", "pdf"]


def test_whoever_has_no_role_publishes_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    folder = read_skill(write_skill(tmp_path / "pdf"), "1.0.0")
    draft = publication_of("acme", folder.version, "stable", folder.rows)

    def accepted(**roles: Role) -> Any:
        caller = RegistryCaller(name="token:ci", roles=roles)
        return Publishing(store).accept(draft, [*folder.contents.values()], caller=caller)

    with pytest.raises(SkillNotFound, match="no namespace acme"):
        accepted(other=Role.ADMIN)
    with pytest.raises(RoleMissing, match="may not publish to acme"):
        accepted(acme=Role.READ)
    with pytest.raises(FormatError, match="not in the manifest"):
        Publishing(store).accept(draft, [b"smuggled"], caller=operator("test"))
    assert not Publishing(store).waiting_uploads()
    assert accepted(acme=Role.PUBLISH).is_new
    promote = {"namespace": "acme", "name": "pdf", "version": "1.0.0", "channel": "beta"}
    with pytest.raises(RoleMissing, match="the role admin in acme"):
        administer(store, "promote", promote, acme=Role.PUBLISH)
    with pytest.raises(RoleMissing, match="the role admin in every namespace"):
        administer(store, "tokens", {}, acme=Role.ADMIN)
    assert administer(store, "promote", promote, acme=Role.ADMIN)["channel"] == "beta"
    assert Administration(store).run("tokens", {}, caller=operator("test")) == {"tokens": []}


def administer(store: Store, command: str, given: dict[str, str], **roles: Role) -> dict[str, Any]:
    caller = RegistryCaller(name="token:ci", roles=roles)
    return Administration(store).run(command, given, caller=caller)
