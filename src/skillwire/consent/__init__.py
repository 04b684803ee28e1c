"""Decisions of people about skills: the records and their store, the question to a person, the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.consent.asking import NO_TERMINAL as NO_TERMINAL
    from skillwire.consent.asking import Callback as Callback
    from skillwire.consent.asking import PersonTerminal as PersonTerminal
    from skillwire.consent.asking import ScopedCallback as ScopedCallback
    from skillwire.consent.asking import forget_typed_ahead as forget_typed_ahead
    from skillwire.consent.asking import open_terminal as open_terminal
    from skillwire.consent.asking import read_line as read_line
    from skillwire.consent.asking import require_person as require_person
    from skillwire.consent.export import approvals_signature as approvals_signature
    from skillwire.consent.export import exported as exported
    from skillwire.consent.export import imported as imported
    from skillwire.consent.export import sign_approvals as sign_approvals
    from skillwire.consent.question import Answer as Answer
    from skillwire.consent.question import ApprovalCallback as ApprovalCallback
    from skillwire.consent.question import ApprovalRequest as ApprovalRequest
    from skillwire.consent.question import Once as Once
    from skillwire.consent.question import covered_files as covered_files
    from skillwire.consent.question import file_lines as file_lines
    from skillwire.consent.question import single_file as single_file
    from skillwire.consent.record import DIRECTORY as DIRECTORY
    from skillwire.consent.record import Change as Change
    from skillwire.consent.record import ConsentBackend as ConsentBackend
    from skillwire.consent.record import Decided as Decided
    from skillwire.consent.record import Decision as Decision
    from skillwire.consent.record import Key as Key
    from skillwire.consent.record import Record as Record
    from skillwire.consent.record import consider as consider
    from skillwire.consent.sqlite import SqliteConsent as SqliteConsent
    from skillwire.consent.states import ApprovalStatus as ApprovalStatus
    from skillwire.consent.states import State as State
    from skillwire.consent.states import status_of as status_of
    from skillwire.consent.store import ConsentStore as ConsentStore

export(
    __name__,
    {
        "asking": (
            "NO_TERMINAL Callback PersonTerminal ScopedCallback forget_typed_ahead open_terminal read_line "
            "require_person"
        ),
        "export": "approvals_signature exported imported sign_approvals",
        "question": "Answer ApprovalCallback ApprovalRequest Once covered_files file_lines single_file",
        "record": "DIRECTORY Change ConsentBackend Decided Decision Key Record consider",
        "sqlite": "SqliteConsent",
        "states": "ApprovalStatus State status_of",
        "store": "ConsentStore",
    },
)
