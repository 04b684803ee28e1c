"""Decisions on whether a skill may be used: verification, approval, admission, signatures. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.trust.admission import AdmissionRequest as AdmissionRequest
    from skillwire.trust.admission import Purpose as Purpose
    from skillwire.trust.admission import admit as admit
    from skillwire.trust.admission import admit_script as admit_script
    from skillwire.trust.admission import approval_error as approval_error
    from skillwire.trust.admission import is_outdated as is_outdated
    from skillwire.trust.admission import require as require
    from skillwire.trust.approval import ALL_GRANTS as ALL_GRANTS
    from skillwire.trust.approval import NO_GRANTS as NO_GRANTS
    from skillwire.trust.approval import Approval as Approval
    from skillwire.trust.approval import ApprovalMode as ApprovalMode
    from skillwire.trust.approval import ChangeKind as ChangeKind
    from skillwire.trust.approval import Execution as Execution
    from skillwire.trust.approval import FileChange as FileChange
    from skillwire.trust.approval import Grants as Grants
    from skillwire.trust.approval import HeldSkill as HeldSkill
    from skillwire.trust.approval import Reason as Reason
    from skillwire.trust.approval import ResourceSet as ResourceSet
    from skillwire.trust.approval import approve as approve
    from skillwire.trust.approval import difference as difference
    from skillwire.trust.approval import granted_tools as granted_tools
    from skillwire.trust.approval import is_nested as is_nested
    from skillwire.trust.approval import looks_like_uri as looks_like_uri
    from skillwire.trust.approval import may_execute as may_execute
    from skillwire.trust.approval import requested_tools as requested_tools
    from skillwire.trust.approval import resource_set as resource_set
    from skillwire.trust.approval import seen_digest as seen_digest
    from skillwire.trust.approval import seen_set as seen_set
    from skillwire.trust.approval import shown_digest as shown_digest
    from skillwire.trust.decision import Allowed as Allowed
    from skillwire.trust.decision import Ask as Ask
    from skillwire.trust.decision import Cause as Cause
    from skillwire.trust.decision import Decision as Decision
    from skillwire.trust.decision import Denied as Denied
    from skillwire.trust.decision import NotSignedBy as NotSignedBy
    from skillwire.trust.decision import Remedy as Remedy
    from skillwire.trust.decision import Step as Step
    from skillwire.trust.decision import Unapproved as Unapproved
    from skillwire.trust.decision import Unavailable as Unavailable
    from skillwire.trust.decision import Unsupported as Unsupported
    from skillwire.trust.fence import Fenced as Fenced
    from skillwire.trust.fence import HiddenText as HiddenText
    from skillwire.trust.fence import Hiding as Hiding
    from skillwire.trust.fence import find_hidden_text as find_hidden_text
    from skillwire.trust.origin import LOCAL_LABEL as LOCAL_LABEL
    from skillwire.trust.origin import MAX_LABEL_LENGTH as MAX_LABEL_LENGTH
    from skillwire.trust.origin import Origin as Origin
    from skillwire.trust.origin import OriginKind as OriginKind
    from skillwire.trust.origin import Patterns as Patterns
    from skillwire.trust.origin import git_name as git_name
    from skillwire.trust.origin import url_name as url_name
    from skillwire.trust.policy import NO_POLICY as NO_POLICY
    from skillwire.trust.policy import LayerKind as LayerKind
    from skillwire.trust.policy import Permission as Permission
    from skillwire.trust.policy import Policy as Policy
    from skillwire.trust.policy import PolicyLayer as PolicyLayer
    from skillwire.trust.policy import PolicyPublisher as PolicyPublisher
    from skillwire.trust.policy import Refusal as Refusal
    from skillwire.trust.policy import Subject as Subject
    from skillwire.trust.policy import TeamApproval as TeamApproval
    from skillwire.trust.policy import judge_steps as judge_steps
    from skillwire.trust.policy import may_have as may_have
    from skillwire.trust.publishers import MAX_BUNDLE_BYTES as MAX_BUNDLE_BYTES
    from skillwire.trust.publishers import SIGNATURE_FILE as SIGNATURE_FILE
    from skillwire.trust.publishers import InvalidSignatureFile as InvalidSignatureFile
    from skillwire.trust.publishers import Publisher as Publisher
    from skillwire.trust.publishers import statement_of as statement_of
    from skillwire.trust.scans import Finding as Finding
    from skillwire.trust.scans import FindingLevel as FindingLevel
    from skillwire.trust.scans import Scan as Scan
    from skillwire.trust.scans import Scanner as Scanner
    from skillwire.trust.scans import make_scan as make_scan
    from skillwire.trust.scans import parse_sarif as parse_sarif
    from skillwire.trust.signatures import NO_SIGNER as NO_SIGNER
    from skillwire.trust.signatures import UNSIGNED as UNSIGNED
    from skillwire.trust.signatures import SignatureState as SignatureState
    from skillwire.trust.signatures import SignatureVerdict as SignatureVerdict
    from skillwire.trust.signatures import check_signature as check_signature
    from skillwire.trust.signatures import claimed_differences as claimed_differences
    from skillwire.trust.signatures import confirms_signer as confirms_signer
    from skillwire.trust.signatures import sign_files as sign_files
    from skillwire.trust.signatures import signer_change as signer_change
    from skillwire.trust.signatures import signer_text as signer_text
    from skillwire.trust.signatures import signer_words as signer_words
    from skillwire.trust.signatures import skill_files as skill_files
    from skillwire.trust.verify import CheckedEntry as CheckedEntry
    from skillwire.trust.verify import DirectoryView as DirectoryView
    from skillwire.trust.verify import Excess as Excess
    from skillwire.trust.verify import ListedChild as ListedChild
    from skillwire.trust.verify import VerifiedFile as VerifiedFile
    from skillwire.trust.verify import VerifiedSkill as VerifiedSkill
    from skillwire.trust.verify import check_entry as check_entry
    from skillwire.trust.verify import excess as excess
    from skillwire.trust.verify import frontmatter_differences as frontmatter_differences
    from skillwire.trust.verify import manifest_issues as manifest_issues
    from skillwire.trust.verify import shown_path as shown_path
    from skillwire.trust.verify import skill_file as skill_file
    from skillwire.trust.verify import verify_file as verify_file
    from skillwire.trust.verify import verify_skill_md as verify_skill_md

export(
    __name__,
    {
        "admission": "AdmissionRequest Purpose admit admit_script approval_error is_outdated require",
        "approval": (
            "ALL_GRANTS NO_GRANTS Approval ApprovalMode ChangeKind Execution FileChange Grants HeldSkill "
            "Reason ResourceSet approve difference granted_tools is_nested looks_like_uri may_execute "
            "requested_tools resource_set seen_digest seen_set shown_digest"
        ),
        "decision": (
            "Allowed Ask Cause Decision Denied NotSignedBy Remedy Step Unapproved Unavailable Unsupported"
        ),
        "fence": "Fenced HiddenText Hiding find_hidden_text",
        "origin": "LOCAL_LABEL MAX_LABEL_LENGTH Origin OriginKind Patterns git_name url_name",
        "policy": (
            "NO_POLICY LayerKind Permission Policy PolicyLayer PolicyPublisher Refusal Subject "
            "TeamApproval judge_steps may_have"
        ),
        "publishers": "MAX_BUNDLE_BYTES SIGNATURE_FILE InvalidSignatureFile Publisher statement_of",
        "scans": "Finding FindingLevel Scan Scanner make_scan parse_sarif",
        "signatures": (
            "NO_SIGNER UNSIGNED SignatureState SignatureVerdict check_signature claimed_differences "
            "confirms_signer sign_files signer_change signer_text signer_words skill_files"
        ),
        "verify": (
            "CheckedEntry DirectoryView Excess ListedChild VerifiedFile VerifiedSkill check_entry excess "
            "frontmatter_differences manifest_issues shown_path skill_file verify_file verify_skill_md"
        ),
    },
)
