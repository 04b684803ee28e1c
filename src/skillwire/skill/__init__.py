"""Skills: names, URIs, frontmatter, digests and entries. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.skill.entries import DYNAMIC as DYNAMIC
    from skillwire.skill.entries import NO_SIZE as NO_SIZE
    from skillwire.skill.entries import Dialect as Dialect
    from skillwire.skill.entries import Digest as Digest
    from skillwire.skill.entries import DraftDetails as DraftDetails
    from skillwire.skill.entries import Dynamic as Dynamic
    from skillwire.skill.entries import SetDigest as SetDigest
    from skillwire.skill.entries import SkillEntry as SkillEntry
    from skillwire.skill.entries import SkillResource as SkillResource
    from skillwire.skill.entries import digest_of as digest_of
    from skillwire.skill.entries import is_size as is_size
    from skillwire.skill.entries import parse_digest as parse_digest
    from skillwire.skill.entries import parse_set_digest as parse_set_digest
    from skillwire.skill.entries import set_digest as set_digest
    from skillwire.skill.fields import HostFields as HostFields
    from skillwire.skill.fields import field_issues as field_issues
    from skillwire.skill.fields import host_fields as host_fields
    from skillwire.skill.fields import read_fields as read_fields
    from skillwire.skill.files import DIRECTORY as DIRECTORY
    from skillwire.skill.files import MARKDOWN as MARKDOWN
    from skillwire.skill.files import belongs_to_skill as belongs_to_skill
    from skillwire.skill.files import media_type as media_type
    from skillwire.skill.frontmatter import SkillDocument as SkillDocument
    from skillwire.skill.frontmatter import parse_skill_md as parse_skill_md
    from skillwire.skill.lint import lint_skill as lint_skill
    from skillwire.skill.profiles import PROFILES as PROFILES
    from skillwire.skill.profiles import Demand as Demand
    from skillwire.skill.profiles import Profile as Profile
    from skillwire.skill.profiles import unmet_demands as unmet_demands
    from skillwire.skill.uris import SCHEME as SCHEME
    from skillwire.skill.uris import SKILL_FILE as SKILL_FILE
    from skillwire.skill.uris import PathConflict as PathConflict
    from skillwire.skill.uris import SkillName as SkillName
    from skillwire.skill.uris import SkillUri as SkillUri
    from skillwire.skill.uris import UriParts as UriParts
    from skillwire.skill.uris import check_files as check_files
    from skillwire.skill.uris import child_uri as child_uri
    from skillwire.skill.uris import file_conflicts as file_conflicts
    from skillwire.skill.uris import is_inside as is_inside
    from skillwire.skill.uris import is_plain as is_plain
    from skillwire.skill.uris import is_plain_path as is_plain_path
    from skillwire.skill.uris import make_uri as make_uri
    from skillwire.skill.uris import name_issues as name_issues
    from skillwire.skill.uris import parse_name as parse_name
    from skillwire.skill.uris import parse_uri as parse_uri
    from skillwire.skill.uris import path_below as path_below
    from skillwire.skill.uris import safe_path as safe_path
    from skillwire.skill.uris import shown_uri as shown_uri
    from skillwire.skill.uris import skill_name_in as skill_name_in
    from skillwire.skill.uris import skill_path as skill_path
    from skillwire.skill.uris import skill_root as skill_root
    from skillwire.skill.uris import split_uri as split_uri

export(
    __name__,
    {
        "entries": (
            "DYNAMIC NO_SIZE Dialect Digest DraftDetails Dynamic SetDigest SkillEntry SkillResource "
            "digest_of is_size parse_digest parse_set_digest set_digest"
        ),
        "fields": "HostFields field_issues host_fields read_fields",
        "files": "DIRECTORY MARKDOWN belongs_to_skill media_type",
        "frontmatter": "SkillDocument parse_skill_md",
        "lint": "lint_skill",
        "profiles": "PROFILES Demand Profile unmet_demands",
        "uris": (
            "SCHEME SKILL_FILE PathConflict SkillName SkillUri UriParts check_files child_uri "
            "file_conflicts is_inside is_plain is_plain_path make_uri name_issues parse_name parse_uri "
            "path_below safe_path shown_uri skill_name_in skill_path skill_root split_uri"
        ),
    },
)
