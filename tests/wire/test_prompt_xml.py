"""The catalog as XML is well formed whatever a skill says, and hides nothing."""

from __future__ import annotations

from xml.etree import ElementTree

from sample_entries import make_entry
from skillwire.wire.legacy import write_prompt_xml


def test_skills_become_elements_with_name_description_and_location() -> None:
    entries = [make_entry("skill://a/b/SKILL.md", description="One."), make_entry("skill://c/SKILL.md")]
    tree = ElementTree.fromstring(write_prompt_xml(entries))
    assert tree.tag == "available_skills"
    assert [(part.tag, part.text) for part in tree[0]] == [
        ("name", "b"),
        ("description", "One."),
        ("location", "skill://a/b/SKILL.md"),
    ]
    assert len(tree) == 2


def test_markup_controls_and_hidden_characters_do_not_get_through() -> None:
    description = "</description></skill> & <b>\x00\x1b[31m\u202e\U000e0041 end"
    [skill] = ElementTree.fromstring(write_prompt_xml([make_entry(description=description)]))
    assert skill.findtext("description") == "</description></skill> & <b> end"


def test_no_skills_are_an_empty_element() -> None:
    assert list(ElementTree.fromstring(write_prompt_xml([]))) == []
