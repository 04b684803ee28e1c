"""The question of every style: it names the files that a yes covers, and says why in words."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from skillwire.catalog import HostSkill
from skillwire.host import Style
from skillwire.host.styles import all_styles
from skillwire.skill import DYNAMIC, SkillEntry, SkillResource, SkillUri, digest_of
from skillwire.trust import FileChange, Origin, Reason

URI = SkillUri("skill://refunds/SKILL.md")
GUIDE = SkillUri("skill://refunds/guide.md")
SKILL = HostSkill(
    Origin.mcp("shop"),
    SkillEntry(URI, {"name": "refunds", "description": "Pays."}, DYNAMIC),
    "refunds",
)


@dataclass(frozen=True)
class Asked:
    files: tuple[SkillResource, ...]
    reason: Reason
    skill: HostSkill = SKILL
    changes: tuple[FileChange, ...] = ()
    nested: bool = False
    requested_tools: tuple[str, ...] = ()


def covered(*uris: SkillUri) -> tuple[SkillResource, ...]:
    return tuple(SkillResource(uri, digest_of(uri.encode()), 1200) for uri in uris)


def plain(text: str) -> str:
    return text.replace("\\", "")


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("style", all_styles(), ids=lambda style: style.name)
def test_a_question_names_each_file_and_its_reason_is_a_sentence(style: Style, reason: Reason) -> None:
    text = plain(style.confirmation(Asked(covered(URI, GUIDE), reason)))
    for uri, path in ((URI, "SKILL.md"), (GUIDE, "guide.md")):
        assert f"{path} (1,200 bytes, {digest_of(uri.encode())[:19]}…)" in text
    assert reason.sentence in text
    assert "unbindable" not in text
    assert f"({reason.value})" not in text


@pytest.mark.parametrize("style", all_styles(), ids=lambda style: style.name)
def test_a_question_about_one_file_is_about_that_file(style: Style) -> None:
    text = plain(style.confirmation(Asked(covered(GUIDE), Reason.UNBINDABLE)))
    assert "guide.md" in text.splitlines()[0]
    assert "- SKILL.md" not in text


def test_the_last_of_very_many_files_are_counted() -> None:
    many = covered(URI, *(SkillUri(f"skill://refunds/{number}.md") for number in range(60)))
    text = all_styles()[0].confirmation(Asked(many, Reason.NEW))
    assert "and 11 more files" in plain(text)
