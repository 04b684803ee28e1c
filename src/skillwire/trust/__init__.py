"""Decisions on whether a skill may be used: verification, approval, admission, signatures. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.trust.approval import Approval as Approval
    from skillwire.trust.approval import ChangeKind as ChangeKind
    from skillwire.trust.approval import FileChange as FileChange
    from skillwire.trust.approval import Grants as Grants
    from skillwire.trust.approval import Policy as Policy
    from skillwire.trust.approval import Reason as Reason
    from skillwire.trust.approval import ResourceSet as ResourceSet
    from skillwire.trust.directory import DirectoryView as DirectoryView
    from skillwire.trust.directory import ListedChild as ListedChild
    from skillwire.trust.fence import Fenced as Fenced
    from skillwire.trust.guards import Execution as Execution
    from skillwire.trust.guards import HeldSkill as HeldSkill
    from skillwire.trust.guards import looks_like_uri as looks_like_uri
    from skillwire.trust.origin import Origin as Origin
    from skillwire.trust.origin import OriginKind as OriginKind
    from skillwire.trust.publishers import Publisher as Publisher
    from skillwire.trust.signatures import SignatureState as SignatureState
    from skillwire.trust.signatures import SignatureVerdict as SignatureVerdict
    from skillwire.trust.signatures import check_signature as check_signature
    from skillwire.trust.signatures import sign_files as sign_files
    from skillwire.trust.verify import CheckedEntry as CheckedEntry
    from skillwire.trust.verify import VerifiedFile as VerifiedFile
    from skillwire.trust.verify import VerifiedSkill as VerifiedSkill
    from skillwire.trust.verify import check_entry as check_entry
    from skillwire.trust.verify import verify_file as verify_file
    from skillwire.trust.verify import verify_skill_md as verify_skill_md

export(
    __name__,
    {
        "approval": "Approval ChangeKind FileChange Grants Policy Reason ResourceSet",
        "directory": "DirectoryView ListedChild",
        "fence": "Fenced",
        "guards": "Execution HeldSkill looks_like_uri",
        "origin": "Origin OriginKind",
        "publishers": "Publisher",
        "signatures": "SignatureState SignatureVerdict check_signature sign_files",
        "verify": "CheckedEntry VerifiedFile VerifiedSkill check_entry verify_file verify_skill_md",
    },
)
