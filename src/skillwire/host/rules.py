"""Rules: what the configuration, the switches, the style and the policy of a host say about its skills.

They are the facts of an admission that no person decides. Those of an origin are collected once, until one of
them changes; those of a skill cost little. `Decider` adds what people decided, and asks `admit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillwire.catalog import Selection, fold_handle
from skillwire.host.directories import HostOrigins
from skillwire.host.policies import NOTHING, LoadedPolicy
from skillwire.host.state import OPEN, Switches
from skillwire.host.styles.base import Style
from skillwire.limits import Limits
from skillwire.skill import SkillEntry
from skillwire.trust import (
    AdmissionRequest,
    ApprovalMode,
    Decision,
    Origin,
    Purpose,
    SignatureVerdict,
    admit,
)
from skillwire.trust.scans import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFacts:
    """Everything about an origin that the decisions on its skills depend on."""

    unavailable: str
    """Why nothing of it may be used; empty if it may."""
    approval_mode: ApprovalMode
    selection: Selection | None
    """The rules by which its skills are included and excluded, if it has any."""
    require: tuple[str, ...]
    """The publishers who must have signed every skill of it."""
    sources: tuple[str, ...]
    """Its place, as the patterns of a policy name it; empty if there is no policy."""


class Rules:
    """The rules of one host. `Places` and `LiveState` change them; everything that decides reads them."""

    def __init__(
        self, origins: HostOrigins, *, disabled: Iterable[str], style: Style, limits: Limits
    ) -> None:
        self.origins = origins
        self.style = style
        self.limits = limits
        self.policy: LoadedPolicy = NOTHING
        self.disabled = folded_names(disabled)
        """URIs, and names in the spelling in which names are compared (`fold_handle`)."""
        self.switches: Switches = OPEN
        self.revision = 0
        """A number that changes with the policy, the switches and the configuration of origins."""
        self._removed: set[Origin] = set()
        self._facts: dict[Origin, OriginFacts] = {}

    # What changes them

    def set_policy(self, policy: LoadedPolicy) -> bool:
        """Judge by this policy from now on. Returns whether it is another one."""
        self._facts.clear()  # A directory may be at another place by now.
        if policy == self.policy:
            return False
        self.policy = policy
        self.revision += 1
        return True

    def set_switches(self, switches: Switches) -> Switches:
        """Use these switches from now on. Returns those before."""
        before, self.switches = self.switches, switches
        self._facts.clear()
        self.revision += 1
        return before

    def set_origins(self, origins: HostOrigins) -> None:
        """Use what another configuration says about the origins."""
        self.origins = origins
        self._facts.clear()
        self.revision += 1

    def remove(self, origin: Origin) -> None:
        """The origin is not part of the host any more: an answer of it that comes late is ignored."""
        self._removed.add(origin)
        self._facts.pop(origin, None)
        self.revision += 1

    def restore(self, origin: Origin) -> None:
        """The origin is part of the host again."""
        self._removed.discard(origin)
        self._facts.pop(origin, None)
        self.revision += 1

    # What they say

    def facts(self, origin: Origin) -> OriginFacts:
        """What holds for every skill of an origin."""
        found = self._facts.get(origin)
        if found is None:
            config = self.origins.servers.get(origin)
            is_gone = origin in self._removed
            found = self._facts[origin] = OriginFacts(
                unavailable="it is not configured any more" if is_gone else self.switches.closed_for(origin),
                approval_mode=ApprovalMode.PROMPT if config is None else config.approval,
                selection=None if config is None else config.selection,
                require=self.origins.required_publishers(origin),
                sources=self.names(origin) if self.policy.policy.given else (),
            )
        return found

    def names(self, origin: Origin) -> tuple[str, ...]:
        """The place of an origin, as the patterns of a policy name it."""
        return self.origins.source_names(origin)

    def approval_mode(self, origin: Origin) -> ApprovalMode:
        """The configured approval mode of all skills of an origin."""
        return self.facts(origin).approval_mode

    def closed_for(self, origin: Origin) -> str:
        """Why nothing of an origin is taken; empty when it is."""
        return self.facts(origin).unavailable

    def selects(self, origin: Origin, entry: SkillEntry) -> bool:
        """Whether the configuration includes a skill."""
        selection = self.facts(origin).selection
        return selection is None or selection.admits(entry)

    def style_refusal(self, origin: Origin, entry: SkillEntry) -> str:
        """Why the style does not take a skill; empty if it does."""
        return "" if origin.is_local else self.style.refusal(entry, self.limits)

    def request(
        self,
        origin: Origin,
        entry: SkillEntry,
        *,
        disabled: bool = False,
        nested: bool = False,
        signature: SignatureVerdict | None = None,
        scans: Mapping[str, Scan] | None = None,
    ) -> AdmissionRequest:
        """The facts that the admission of a skill depends on, without what people decided."""
        facts, loaded = self.facts(origin), self.policy
        return AdmissionRequest(
            origin=origin,
            entry=entry,
            unavailable=facts.unavailable,
            selected=facts.selection is None or facts.selection.admits(entry),
            style_refusal=self.style_refusal(origin, entry),
            disabled=disabled,
            approval_mode=facts.approval_mode,
            nested=nested,
            require=facts.require,
            signature=signature,
            scans=scans,
            policy=loaded.policy,
            sources=facts.sources,
            team=loaded.team(entry, facts.sources) if loaded.approvals else (),
        )

    def listing(self, origin: Origin, entry: SkillEntry) -> Decision:
        """Whether a skill that an origin lists is shown."""
        return admit(self.request(origin, entry), Purpose.LIST)


def folded_names(names: Iterable[str]) -> frozenset[str]:
    """Names and URIs as `Rules.disabled` has them: case does not matter in a name."""
    return frozenset(spelling for name in names for spelling in (name, fold_handle(name)))
