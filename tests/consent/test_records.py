"""Records of consent as values: what each decision leaves, what an export may say, and the states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sample_entries import DEMO, OTHER, checked, skill_md
from skillwire.consent import (
    ConsentStore,
    Key,
    Record,
    State,
    consider,
    covered_files,
    exported,
    file_lines,
    imported,
    single_file,
    status_of,
)
from skillwire.consent import record as transitions
from skillwire.errors import FormatError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import SkillEntry, SkillResource, digest_of
from skillwire.trust import (
    AdmissionRequest,
    ApprovalMode,
    Grants,
    Origin,
    approve,
    seen_set,
    shown_digest,
    verify_file,
)
from skillwire.trust.signatures import UNSIGNED

ENTRY = checked(files={"a.md": b"text"})
CHANGED = checked(files={"a.md": b"other"})
KEY = Key("label:demo", ENTRY.uri)
YES = transitions.approved(Record(key=KEY), approve(ENTRY, DEMO), ENTRY, how="test")


def status(
    record: Record, entry: SkillEntry = ENTRY, origin: Origin = DEMO, **facts: Any
) -> tuple[State, str]:
    candidate = consider(AdmissionRequest(origin=origin, entry=entry, **facts), record)
    found = status_of(candidate, limits=DEFAULT_LIMITS)
    return found.state, found.reason


def test_only_the_last_decision_counts_and_only_for_its_files() -> None:
    declined = transitions.declined(YES, shown_digest(ENTRY) or "", how="test")
    assert YES.approval(DEMO) == approve(ENTRY, DEMO)
    assert YES.ended(DEMO) is None
    for record in (declined, transitions.changed(YES, YES), transitions.revoked(YES)):
        assert not record.is_approved
        assert record.approval(DEMO) is None
    assert declined.ended(DEMO) == approve(ENTRY, DEMO)
    assert status(YES)[0] is State.APPROVED
    assert status(YES, CHANGED) == (State.CHANGED, "1 file")
    assert status(declined)[0] is State.DECLINED
    # Other files than those that were declined are asked about again.
    assert status(declined, CHANGED) == (State.CHANGED, "1 file")
    assert status(transitions.declined(Record(key=KEY), "sha256:0", how=""))[0] is State.NOT_APPROVED
    assert status(YES, origin=Origin.local())[0] is State.OWN
    # A server that is allowed everything, and a signature that is gone since the last load.
    signed = transitions.signed(Record(key=KEY), "key:1")
    always = ApprovalMode.ALWAYS
    assert status(Record(key=KEY), approval_mode=always)[0] is State.ALLOWED
    assert status(signed, approval_mode=always, signature=UNSIGNED) == (State.CHANGED, "signer")


def test_a_change_ends_the_approval_that_was_seen_and_no_other() -> None:
    later = transitions.approved(YES, approve(ENTRY, DEMO), ENTRY, how="later")
    assert transitions.changed(later, YES) == later
    declined = transitions.declined(YES, "sha256:0", how="")
    assert transitions.changed(declined, declined) == declined
    assert transitions.changed(YES, YES).last.decided_by == ""


def test_who_signed_a_skill_is_kept_by_a_revocation_and_by_an_import() -> None:
    signed = transitions.signed(YES, "key:1")
    assert transitions.revoked(signed).signer == "key:1"
    assert transitions.replaced(signed, replace(YES, signer="key:2")).signer == "key:1"
    assert consider(AdmissionRequest(origin=DEMO, entry=ENTRY), signed).signer == "key:1"


def test_an_export_comes_back_as_what_was_approved_and_says_that_it_was_imported() -> None:
    grants = Grants(allowed_tools=True)
    yes = transitions.approved(Record(key=KEY), approve(ENTRY, DEMO, grants=grants), ENTRY, how="test")
    back = imported(exported(yes))
    assert back.key == KEY
    assert back.approval(DEMO) == yes.approval(DEMO)
    assert back.last.grants == "tools"
    assert back.last.decided_how.startswith("imported; approved by ")
    with pytest.raises(ValueError, match="only an approval"):
        exported(transitions.revoked(yes))


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    "change",
    [
        {"digest": "sha256:" + "0" * 64},
        {"uri": "skill://other/SKILL.md"},
        {
            "entry": exported(transitions.approved(Record(key=KEY), approve(CHANGED, DEMO), CHANGED, how=""))[
                "entry"
            ]
        },
    ],
    ids=["digest", "uri", "entry"],
)
def test_an_export_whose_parts_contradict_each_other_approves_nothing(change: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="does not fit its entry"):
        imported({**exported(YES), **change})


@pytest.mark.parametrize("value", [1, "true", "yes", [1], None])
def test_an_export_grants_only_what_is_exactly_true(value: object) -> None:
    record = imported({**exported(YES), "execute_code": value, "allowed_tools": value})
    assert record.last.grants == ""
    approval = record.approval(DEMO)
    assert approval is not None
    assert approval.grants == Grants()


@pytest.mark.requirement("SEC-6")
def test_of_a_skill_without_digests_an_export_covers_the_files_that_were_seen() -> None:
    entry = checked(dynamic=True)
    seen = seen_set([verify_file(entry, entry.uri, skill_md(), DEMO)])
    yes = transitions.approved(Record(key=KEY), approve(entry, DEMO, seen=seen), entry, how="")
    document = exported(yes)
    assert imported(document).approval(DEMO) == yes.approval(DEMO)
    with pytest.raises(FormatError):
        imported({**document, "files": [[entry.uri, "sha256:" + "0" * 64]]})
    with pytest.raises(FormatError):
        imported({**document, "files": []})


def test_a_yes_covers_the_files_of_the_entry_and_of_a_skill_without_digests_those_that_were_shown() -> None:
    other = SkillResource(uri=ENTRY.uri.replace("SKILL.md", "b.md"), digest=digest_of(b"b"), size=1)  # type: ignore[arg-type]
    files = covered_files(ENTRY, [other])
    assert files[0].uri == ENTRY.uri
    assert other not in files
    assert covered_files(checked(dynamic=True), [other]) == (other,)
    assert file_lines(ENTRY, files)[1].startswith("a.md (4 bytes, sha256:")
    assert single_file(ENTRY, files) == ""
    assert single_file(ENTRY, [other]) == "b.md"
    assert len(file_lines(ENTRY, [other] * 60)) == 51


@pytest.mark.anyio
async def test_an_approval_of_a_session_grows_and_ends_with_a_no(tmp_path: Path) -> None:
    store, entry = ConsentStore(tmp_path / "approvals.sqlite"), checked(dynamic=True)
    key = store.key(DEMO, entry.uri)
    first = approve(entry, DEMO, seen=frozenset({(entry.uri, digest_of(b"1"))}))
    second = approve(entry, DEMO, seen=frozenset({(entry.uri, digest_of(b"2"))}))
    store.approve_for_session(key, first)
    store.approve_for_session(key, second)
    both = store.session(key)
    assert both is not None
    assert both.resources == first.resources | second.resources
    assert store.session(store.key(OTHER, entry.uri)) is None
    assert store.session(store.key(DEMO, entry.uri, "ada")) is None
    await store.decline(key, "sha256:0")
    assert store.session(key) is None
    store.approve_for_session(key, first)
    assert await store.revoke(key)
    assert store.session(key) is None
    store.approve_for_session(key, first)
    assert await store.remove_server(DEMO) == 1
    assert store.session(key) is None


@pytest.mark.anyio
async def test_what_another_process_removed_is_gone_at_the_next_look(tmp_path: Path) -> None:
    store, other = (ConsentStore(tmp_path / "approvals.sqlite") for _ in range(2))
    key, second = store.key(DEMO, ENTRY.uri), store.key(DEMO, ENTRY.uri, "ada")
    for one in (key, second):
        await store.approve(one, approve(ENTRY, DEMO), ENTRY)
    await other.remove_server(DEMO)
    assert not (await store.fetch(key)).is_approved
    assert not store.record(key).is_approved
    await store.refresh()
    assert not store.record(second).is_approved


@pytest.mark.anyio
async def test_an_approval_that_ended_here_does_not_come_back_from_a_store_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConsentStore(tmp_path / "approvals.sqlite")
    key = store.key(DEMO, ENTRY.uri)
    await store.approve(key, approve(ENTRY, DEMO), ENTRY)
    store.end(key)
    revision = store.revision

    async def unwritten() -> None:
        """The disk is full."""

    monkeypatch.setattr(store, "flush", unwritten)
    assert not (await store.fetch(key)).is_approved
    await store.refresh()
    assert not store.record(key).is_approved
    assert store.revision == revision


@pytest.mark.anyio
async def test_a_folder_and_a_server_of_one_label_are_two(tmp_path: Path) -> None:
    store = ConsentStore(tmp_path / "approvals.sqlite")
    assert store.key(Origin.project("demo"), ENTRY.uri) != store.key(Origin.mcp("demo"), ENTRY.uri)
