"""Skills: names, URIs, frontmatter, digests and entries. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.skill.entries import DYNAMIC as DYNAMIC
    from skillwire.skill.entries import MAX_NAME_LENGTH as MAX_NAME_LENGTH
    from skillwire.skill.entries import NO_SIZE as NO_SIZE
    from skillwire.skill.entries import SCHEME as SCHEME
    from skillwire.skill.entries import SKILL_FILE as SKILL_FILE
    from skillwire.skill.entries import Dialect as Dialect
    from skillwire.skill.entries import Digest as Digest
    from skillwire.skill.entries import DraftDetails as DraftDetails
    from skillwire.skill.entries import Dynamic as Dynamic
    from skillwire.skill.entries import PathConflict as PathConflict
    from skillwire.skill.entries import SetDigest as SetDigest
    from skillwire.skill.entries import SkillEntry as SkillEntry
    from skillwire.skill.entries import SkillName as SkillName
    from skillwire.skill.entries import SkillResource as SkillResource
    from skillwire.skill.entries import SkillUri as SkillUri
    from skillwire.skill.entries import UriParts as UriParts
    from skillwire.skill.entries import check_files as check_files
    from skillwire.skill.entries import child_uri as child_uri
    from skillwire.skill.entries import digest_of as digest_of
    from skillwire.skill.entries import file_conflicts as file_conflicts
    from skillwire.skill.entries import folders_of as folders_of
    from skillwire.skill.entries import is_digest as is_digest
    from skillwire.skill.entries import is_inside as is_inside
    from skillwire.skill.entries import is_plain as is_plain
    from skillwire.skill.entries import is_plain_path as is_plain_path
    from skillwire.skill.entries import is_size as is_size
    from skillwire.skill.entries import is_skill_file as is_skill_file
    from skillwire.skill.entries import make_uri as make_uri
    from skillwire.skill.entries import name_issues as name_issues
    from skillwire.skill.entries import parse_digest as parse_digest
    from skillwire.skill.entries import parse_name as parse_name
    from skillwire.skill.entries import parse_set_digest as parse_set_digest
    from skillwire.skill.entries import parse_uri as parse_uri
    from skillwire.skill.entries import path_below as path_below
    from skillwire.skill.entries import safe_path as safe_path
    from skillwire.skill.entries import set_digest as set_digest
    from skillwire.skill.entries import shown_uri as shown_uri
    from skillwire.skill.entries import skill_name_in as skill_name_in
    from skillwire.skill.entries import skill_path as skill_path
    from skillwire.skill.entries import skill_root as skill_root
    from skillwire.skill.entries import split_uri as split_uri
    from skillwire.skill.fields import field_issues as field_issues
    from skillwire.skill.fields import read_fields as read_fields
    from skillwire.skill.files import DIRECTORY as DIRECTORY
    from skillwire.skill.files import MANIFEST_FILE_BYTES as MANIFEST_FILE_BYTES
    from skillwire.skill.files import MARKDOWN as MARKDOWN
    from skillwire.skill.files import SkillDocument as SkillDocument
    from skillwire.skill.files import belongs_to_skill as belongs_to_skill
    from skillwire.skill.files import check_portable as check_portable
    from skillwire.skill.files import is_credential_name as is_credential_name
    from skillwire.skill.files import is_linkable as is_linkable
    from skillwire.skill.files import is_version_control as is_version_control
    from skillwire.skill.files import media_type as media_type
    from skillwire.skill.files import new_skill_md as new_skill_md
    from skillwire.skill.files import parse_skill_md as parse_skill_md
    from skillwire.skill.lint import PROFILES as PROFILES
    from skillwire.skill.lint import RESERVED_METADATA as RESERVED_METADATA
    from skillwire.skill.lint import Demand as Demand
    from skillwire.skill.lint import Profile as Profile
    from skillwire.skill.lint import lint_skill as lint_skill
    from skillwire.skill.lint import unmet_demands as unmet_demands

export(
    __name__,
    {
        "entries": (
            "DYNAMIC MAX_NAME_LENGTH NO_SIZE SCHEME SKILL_FILE Dialect Digest DraftDetails Dynamic "
            "PathConflict SetDigest SkillEntry SkillName SkillResource SkillUri UriParts check_files "
            "child_uri digest_of file_conflicts folders_of is_digest is_inside is_plain is_plain_path "
            "is_size is_skill_file make_uri name_issues parse_digest parse_name parse_set_digest "
            "parse_uri path_below safe_path set_digest shown_uri skill_name_in skill_path skill_root "
            "split_uri"
        ),
        "fields": "field_issues read_fields",
        "files": (
            "DIRECTORY MANIFEST_FILE_BYTES MARKDOWN SkillDocument belongs_to_skill check_portable "
            "is_credential_name is_linkable is_version_control media_type new_skill_md parse_skill_md"
        ),
        "lint": "PROFILES RESERVED_METADATA Demand Profile lint_skill unmet_demands",
    },
)
