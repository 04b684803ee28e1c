"""What a skill is: names, URIs, frontmatter, digests and entries. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.skill.dialects import Dialect as Dialect
    from skillwire.skill.dialects import Draft as Draft
    from skillwire.skill.digests import Digest as Digest
    from skillwire.skill.digests import SetDigest as SetDigest
    from skillwire.skill.digests import digest_of as digest_of
    from skillwire.skill.digests import parse_digest as parse_digest
    from skillwire.skill.digests import set_digest as set_digest
    from skillwire.skill.entries import DYNAMIC as DYNAMIC
    from skillwire.skill.entries import Dynamic as Dynamic
    from skillwire.skill.entries import SkillEntry as SkillEntry
    from skillwire.skill.entries import SkillResource as SkillResource
    from skillwire.skill.fields import HostFields as HostFields
    from skillwire.skill.fields import host_fields as host_fields
    from skillwire.skill.files import belongs_to_skill as belongs_to_skill
    from skillwire.skill.files import media_type as media_type
    from skillwire.skill.frontmatter import SkillDocument as SkillDocument
    from skillwire.skill.frontmatter import parse_skill_md as parse_skill_md
    from skillwire.skill.lint import lint_skill as lint_skill
    from skillwire.skill.names import SkillName as SkillName
    from skillwire.skill.names import parse_name as parse_name
    from skillwire.skill.uris import SkillUri as SkillUri
    from skillwire.skill.uris import parse_uri as parse_uri

export(
    __name__,
    {
        "digests": "Digest SetDigest digest_of parse_digest set_digest",
        "dialects": "Dialect Draft",
        "entries": "DYNAMIC Dynamic SkillEntry SkillResource",
        "fields": "HostFields host_fields",
        "files": "belongs_to_skill media_type",
        "frontmatter": "SkillDocument parse_skill_md",
        "lint": "lint_skill",
        "names": "SkillName parse_name",
        "uris": "SkillUri parse_uri",
    },
)
