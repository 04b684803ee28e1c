"""Scripts of skills in a sandbox: what each gets (`plan`), and the sandbox itself, which is bubblewrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.sandbox.bubblewrap import find_bubblewrap as find_bubblewrap
    from skillwire.sandbox.bubblewrap import find_program as find_program
    from skillwire.sandbox.bubblewrap import resolve_grant as resolve_grant
    from skillwire.sandbox.bubblewrap import run as run
    from skillwire.sandbox.bubblewrap import system_folders as system_folders
    from skillwire.sandbox.bubblewrap import try_sandbox as try_sandbox
    from skillwire.sandbox.bubblewrap import unsafe_run_bare as unsafe_run_bare
    from skillwire.sandbox.plan import Grant as Grant
    from skillwire.sandbox.plan import GrantKind as GrantKind
    from skillwire.sandbox.plan import RunResult as RunResult
    from skillwire.sandbox.plan import SandboxPlan as SandboxPlan
    from skillwire.sandbox.plan import parse_grant as parse_grant
    from skillwire.sandbox.plan import requested_grants as requested_grants

export(
    __name__,
    {
        "bubblewrap": (
            "find_bubblewrap find_program resolve_grant run system_folders try_sandbox unsafe_run_bare"
        ),
        "plan": "Grant GrantKind RunResult SandboxPlan parse_grant requested_grants",
    },
)
