"""Policy: what an organization decides about skills, from layers that only ever narrow. Pure.

A skill is judged by each layer, in these steps. The result is never wider than any layer: one that refuses,
refuses for all.

1. A layer that cannot be read, or whose organization policy cannot be verified, refuses everything.
2. Revoked: the digest of the skill, or of one of its files, must not be used any more.
3. Sources: what matches `deny` is refused; where there is an `allow`, what does not match it is too.
4. Publishers: the keys that are pinned for the source must have signed exactly these files.
5. Scanners: none with a threshold found something as bad in these files, and each could scan them.
6. Approvals: somebody whom the layer names in `by` must have approved exactly these files.

Permissions refuse no skill: they take grants away from it. A layer in the mode `report` decides the same, and
what it would refuse is only reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final

from skillwire.errors import FormatError
from skillwire.skill import DYNAMIC, SetDigest, SkillEntry, path_below, skill_root, split_uri
from skillwire.trust.approval import (
    NO_GRANTS,
    Grants,
    ResourceSet,
    requested_tools,
    seen_digest,
    shown_digest,
)
from skillwire.trust.origin import NOTHING, Patterns, is_below
from skillwire.trust.scans import Scan, Scanner
from skillwire.trust.signatures import SignatureVerdict

USER: Final = "user"
"""The approver that stands for the person whose machine it is."""


class LayerKind(StrEnum):
    """Who wrote a layer, in the order in which refusals are reported."""

    MACHINE = "machine"
    """The administrator of the machine."""
    ORGANIZATION = "organization"
    """The signed policy that the machine's policy names."""
    OPTION = "option"
    """A file that was named with `--policy`, or by a program."""
    USER = "user"
    PROJECT = "project"


_ORDER: Final = tuple(LayerKind)


class Permission(IntEnum):
    """The most that a tool or a script may be granted, the strictest first."""

    NEVER = 0
    SANDBOX_ONLY = 1
    ASK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPublisher:
    """A signer that a policy pins, by public keys. No file of a user can say who it is."""

    name: str
    pems: tuple[str, ...] = field(repr=False)
    signers: frozenset[str]
    """The same keys as a signature names them: `key:` and a SHA-256."""
    require: Patterns = NOTHING
    """The sources whose skills it must have signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLayer:
    """One policy file. What it does not say, it does not restrict."""

    kind: LayerKind
    place: str
    """The path or address that it was read from."""
    name: str = ""
    contact: str = ""
    """Whom to ask, shown in every refusal."""
    reports_only: bool = False
    """Whether its mode is `report`. A file that cannot be read has none, and refuses."""
    problem: str = ""
    """Why it refuses everything; empty if it could be read and verified."""
    registries: tuple[tuple[str, str], ...] = ()
    """Names of registries that `registry:NAME/...` stands for, with their addresses."""
    allow: Patterns | None = None
    deny: Patterns = NOTHING
    publishers: tuple[PolicyPublisher, ...] = ()
    tools: tuple[tuple[Patterns, Permission], ...] = ()
    scripts: tuple[tuple[Patterns, Permission], ...] = ()
    scanners: tuple[Scanner, ...] = ()
    by: tuple[str, ...] = ()
    """Who approves: any of these. Without any, approvals are as they are without a policy."""
    revoked: Mapping[str, str] = field(default_factory=dict[str, str])
    """Digests of skills and of files, each with its reason."""

    @property
    def title(self) -> str:
        """Return its name in a refusal."""
        return self.name or f"of the {self.kind.value} ({self.place})"

    def signers_of(self, name: str) -> frozenset[str]:
        return next((one.signers for one in self.publishers if one.name == name), frozenset[str]())


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamApproval:
    """An approval of exactly these files, signed with a key. `signer` is the key as a signature names it."""

    signer: str
    grants: Grants = NO_GRANTS
    approved_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A skill as a policy sees it."""

    entry: SkillEntry
    sources: tuple[str, ...]
    """Every true name of the place that it comes from, such as `https://docs.example.org/mcp`."""
    seen: ResourceSet = frozenset()
    """The files retrieved of a dynamic skill."""
    signature: SignatureVerdict | None = None
    """Who signed it; `None` if that has not been checked, in which case it is not decided by it."""
    scans: Mapping[str, Scan] | None = None
    """The findings by the `key` of the scanner; `None` if it has not been scanned, likewise."""
    team: tuple[TeamApproval, ...] = ()
    """The signed approvals of exactly these files, from this source."""

    def names(self, layer: PolicyLayer) -> list[str]:
        """Return the names that a layer's patterns match: each source with the skill's path in it."""
        path = _skill_path(self.entry)
        names = [f"{source}/{path}" for source in self.sources]
        for name, address in layer.registries:
            if any(is_below(source, address) for source in self.sources):
                names.append(f"registry:{name}/{path}")
        return names


@dataclass(frozen=True, slots=True)
class Refusal:
    """A layer refuses a skill: by which rule, and why."""

    layer: PolicyLayer
    rule: str
    """The key of the policy that decided, such as `sources.deny`."""
    reason: str

    @property
    def message(self) -> str:
        """One line that says what is wrong, whose decision it is and whom to ask."""
        ask = f"; ask {self.layer.contact}" if self.layer.contact else ""
        return f"the policy {self.layer.title} refuses it by {self.rule}: {self.reason}{ask}"


@dataclass(frozen=True)
class Policy:
    """All layers together. The same layers in any order decide the same."""

    given: tuple[PolicyLayer, ...] = ()

    @cached_property
    def layers(self) -> tuple[PolicyLayer, ...]:
        return tuple(sorted(self.given, key=_layer_rank))

    @cached_property
    def enforced(self) -> tuple[PolicyLayer, ...]:
        """The layers that refuse."""
        return tuple(layer for layer in self.layers if not layer.reports_only)

    @cached_property
    def reporting(self) -> tuple[PolicyLayer, ...]:
        """The layers that only report."""
        return tuple(layer for layer in self.layers if layer.reports_only)

    @cached_property
    def asks_signers(self) -> bool:
        """Whether any layer requires that sources are signed."""
        return any(one.require.texts for layer in self.layers for one in layer.publishers)

    @cached_property
    def needs_team(self) -> bool:
        """Whether any layer says who approves."""
        return any(layer.by for layer in self.layers)

    @cached_property
    def scanners(self) -> tuple[Scanner, ...]:
        """The scanners of all layers, each command once, with the shortest time that a layer gives it."""
        found: dict[str, Scanner] = {}
        for one in (one for layer in self.layers for one in layer.scanners):
            known = found.setdefault(one.key, one)
            found[one.key] = replace(known, seconds=min(known.seconds, one.seconds))
        return tuple(found.values())

    @cached_property
    def thresholds(self) -> frozenset[str]:
        """The keys of the scanners whose findings refuse skills, or would if their layer were enforced."""
        return frozenset(one.key for layer in self.layers for one in layer.scanners if one.refuse is not None)

    @cached_property
    def without_scanners(self) -> Policy:
        """The same layers as far as they decide without a scan."""
        return Policy(tuple(replace(layer, scanners=()) for layer in self.given))

    @cached_property
    def without_publishers(self) -> Policy:
        """The same layers as far as they decide whoever signed a skill."""
        return Policy(tuple(replace(layer, publishers=_not_required(layer)) for layer in self.given))

    @property
    def publishers(self) -> tuple[PolicyPublisher, ...]:
        return tuple(one for layer in self.layers for one in layer.publishers)

    def refusal(self, subject: Subject, *, approvals: bool = True) -> Refusal | None:
        """The first refusal of the layers that are enforced; `None` if none refuses.

        Without `approvals`, who approved it is left to whoever loads it.
        """
        found: Refusal | None = None
        for layer in self.enforced:
            one = judge(layer, subject, approvals=approvals)
            if one is not None and (found is None or _rank(one) < _rank(found)):
                found = one
        return found

    def reported(self, subject: Subject) -> tuple[Refusal, ...]:
        """Return the refusals of the layers that only report."""
        if not self.reporting:
            return ()
        judged = (judge(layer, subject) for layer in self.reporting)
        return tuple(found for found in judged if found is not None)

    def needs_person(self, subject: Subject) -> bool:
        """Whether a layer wants the user's own approval, because none of its teams gave one."""
        return self.needs_team and any(
            USER in layer.by and not _by_team(layer, subject) for layer in self.enforced
        )

    def approved_by_team(self, subject: Subject) -> tuple[tuple[str, TeamApproval], ...]:
        """The signed approvals that count, each with the name of its approver, if they suffice."""
        if not self.needs_team:
            return ()
        found: list[tuple[str, TeamApproval]] = []
        for layer in self.enforced:
            if layer.by:
                given = _by_team(layer, subject)
                if not given:
                    return ()
                found += given
        return tuple(found)

    def limit(self, grants: Grants, subject: Subject) -> Grants:
        """Return what is left of grants: never more than each layer permits and its teams granted."""
        if grants == NO_GRANTS:
            return grants
        for layer in self.enforced:
            if layer.by and USER not in layer.by:
                given = [one.grants for _, one in _by_team(layer, subject)]
                grants = Grants(
                    allowed_tools=grants.allowed_tools and any(one.allowed_tools for one in given),
                    execute_code=grants.execute_code and any(one.execute_code for one in given),
                    scripts=grants.scripts & frozenset[tuple[str, str]]().union(*(g.scripts for g in given)),
                )
            grants = _permitted(layer, grants, subject.entry)
        return grants


NO_POLICY: Final = Policy()


def _not_required(layer: PolicyLayer) -> tuple[PolicyPublisher, ...]:
    """The publishers of a layer, who may still approve skills."""
    return tuple(replace(one, require=NOTHING) for one in layer.publishers)


def _layer_rank(layer: PolicyLayer) -> tuple[int, str, str]:
    return _ORDER.index(layer.kind), layer.place, layer.name


def _rank(refusal: Refusal) -> tuple[object, ...]:
    return *_layer_rank(refusal.layer), refusal.rule, refusal.reason


def judge(layer: PolicyLayer, subject: Subject, *, approvals: bool = True) -> Refusal | None:
    """Why one layer refuses a skill, whatever its mode; `None` if it does not. The steps are numbered as
    above.
    """
    # 1. A policy that is not known refuses everything: it may have refused this.
    if layer.problem:
        return Refusal(layer, "policy", layer.problem)
    # 2. Revoked.
    if layer.revoked and (digest := _revoked_digest(layer.revoked, subject)):
        return Refusal(layer, "revoked", f"{digest} is revoked: {layer.revoked[digest]}")
    # 3. Sources.
    if layer.deny.texts or layer.allow is not None:
        names = subject.names(layer)
        if pattern := layer.deny.named(names):
            return Refusal(layer, "sources.deny", f"{names[0]} matches {pattern}")
        if layer.allow is not None and not layer.allow.matches(names):
            return Refusal(layer, "sources.allow", f"{names[0]} matches none of its patterns")
    # 4. Publishers.
    if subject.signature is not None and (missing := missing_signer(layer, subject)):
        return missing
    # 5. Scanners.
    if subject.scans is not None and (failed := failed_scan(layer, subject)):
        return failed
    # 6. Approvals.
    if approvals and layer.by and USER not in layer.by and not _by_team(layer, subject):
        who = " or ".join(layer.by)
        words = f"it needs an approval signed by {who}: `skillwire approvals request` asks for one"
        return Refusal(layer, "approvals.by", words)
    return None


def may_run(
    layers: Iterable[PolicyLayer], entry: SkillEntry, script: str, *, sandboxed: bool = True
) -> Refusal | None:
    """The refusal of a layer that does not let this script run, in the sandbox or outside of it."""
    for layer in layers:
        level = _level(layer.scripts, [script, f"{entry.name}/{script}"])
        if level is Permission.NEVER or (level is Permission.SANDBOX_ONLY and not sandboxed):
            how = "never" if level is Permission.NEVER else "in the sandbox only"
            return Refusal(layer, "permissions.scripts", f"{script} of {entry.name} runs {how}")
    return None


def judge_steps(layer: PolicyLayer, subject: Subject) -> list[tuple[str, str]]:
    """Each rule that a layer has, and why it refuses a skill, or nothing: to explain a decision."""
    bare = PolicyLayer(
        kind=layer.kind,
        place=layer.place,
        name=layer.name,
        registries=layer.registries,
        problem=layer.problem,
    )
    if layer.problem:
        return [("policy", layer.problem)]
    parts = {
        "revoked": (layer.revoked, replace(bare, revoked=layer.revoked)),
        "sources.deny": (layer.deny.texts, replace(bare, deny=layer.deny)),
        "sources.allow": (layer.allow is not None, replace(bare, allow=layer.allow)),
        **{
            f"publishers.{one.name}": (one.require.texts, replace(bare, publishers=(one,)))
            for one in layer.publishers
        },
        **{f"scanners.{one.name}": (one.refuse, replace(bare, scanners=(one,))) for one in layer.scanners},
        "approvals.by": (layer.by, replace(bare, by=layer.by, publishers=layer.publishers)),
    }
    steps: list[tuple[str, str]] = []
    for rule, (is_there, one) in parts.items():
        if is_there:
            refusal = judge(one, subject)
            steps.append((rule, refusal.reason if refusal is not None else ""))
    return steps


def may_have(layer: PolicyLayer, sources: Iterable[str]) -> Refusal | None:
    """The refusal of a place of which a layer admits no skill, whatever its path; `None` if it may."""
    names = [*sources]
    names += [f"registry:{name}" for name, address in layer.registries if is_below(names[0], address)]
    if layer.problem:
        return Refusal(layer, "policy", layer.problem)
    if pattern := layer.deny.named(names):
        return Refusal(layer, "sources.deny", f"{names[0]} matches {pattern}")
    if layer.allow is not None and not layer.allow.matches(names):
        below = Patterns(names)
        if not any(below.matches([text]) for text in layer.allow.texts):
            return Refusal(layer, "sources.allow", f"{names[0]} matches none of its patterns")
    return None


def missing_signer(layer: PolicyLayer, subject: Subject) -> Refusal | None:
    """The refusal of a skill that a pinned publisher did not sign. What was not checked is not signed."""
    for one in layer.publishers:
        if not one.require.texts or not one.require.matches(subject.names(layer)):
            continue
        verdict = subject.signature
        # By the key alone: a user may call a key of their own by any name.
        if verdict is None or not verdict.is_signed or verdict.signer not in one.signers:
            words = "its signature has not been checked" if verdict is None else f"the skill is {verdict}"
            return Refusal(layer, f"publishers.{one.name}", f"{one.name} must have signed it, and {words}")
    return None


def failed_scan(layer: PolicyLayer, subject: Subject) -> Refusal | None:
    """The refusal of a skill in which a scanner found too much. What was not scanned is not clean."""
    for one in layer.scanners:
        if one.refuse is None:
            continue
        scan = (subject.scans or {}).get(one.key)
        if scan is None:
            return Refusal(layer, f"scanners.{one.name}", "it has not been scanned")
        if scan.problem or scan.worst >= one.refuse:
            return Refusal(layer, f"scanners.{one.name}", scan.words)
    return None


def unsigned(policy: Policy, subject: Subject) -> Refusal | None:
    """The first refusal for want of a signature, of a layer that is enforced."""
    if not policy.asks_signers:
        return None
    return next((one for layer in policy.enforced if (one := missing_signer(layer, subject))), None)


def unscanned(policy: Policy, subject: Subject) -> Refusal | None:
    """The first refusal for want of a clean scan, of a layer that is enforced."""
    if not policy.thresholds:
        return None
    return next((one for layer in policy.enforced if (one := failed_scan(layer, subject))), None)


def _by_team(layer: PolicyLayer, subject: Subject) -> list[tuple[str, TeamApproval]]:
    return [(name, one) for name in layer.by for one in subject.team if one.signer in layer.signers_of(name)]


def _revoked_digest(revoked: Mapping[str, str], subject: Subject) -> str:
    entry = subject.entry
    files = subject.seen if entry.resources is DYNAMIC else entry.resources
    for file in files:
        digest = file[1] if isinstance(file, tuple) else file.digest
        if digest in revoked:
            return digest
    try:
        if entry.resources is DYNAMIC:
            whole: SetDigest | None = seen_digest(entry, subject.seen) if subject.seen else None
        else:
            whole = shown_digest(entry)
    except FormatError:
        return ""  # Not a set of files, so nobody can load it.
    return whole if whole is not None and whole in revoked else ""


def _permitted(layer: PolicyLayer, grants: Grants, entry: SkillEntry) -> Grants:
    if grants == NO_GRANTS or not (layer.tools or layer.scripts):
        return grants
    if grants.allowed_tools and layer.tools:
        tools = requested_tools(entry.frontmatter.get("allowed-tools"))
        # One that may not be granted takes the grant from all: an agent asks about each call then.
        if any(_level(layer.tools, [tool, tool.partition("(")[0]]) is not Permission.ASK for tool in tools):
            grants = replace(grants, allowed_tools=False)
    if layer.scripts:
        # The grant to run code is for anything outside of a sandbox, whichever file it is.
        paths = _paths(entry)
        names = [*paths, *(f"{entry.name}/{path}" for path in paths)]
        if grants.execute_code and _level(layer.scripts, names) is not Permission.ASK:
            grants = replace(grants, execute_code=False)
        grants = replace(
            grants,
            scripts=frozenset(
                (script, grant)
                for script, grant in grants.scripts
                if _level(layer.scripts, [script, f"{entry.name}/{script}"]) is not Permission.NEVER
            ),
        )
    return grants


def _level(rules: Iterable[tuple[Patterns, Permission]], names: Iterable[str]) -> Permission:
    """The strictest permission of all rules that match any of the names."""
    every = tuple(names)
    return min((level for patterns, level in rules if patterns.matches(every)), default=Permission.ASK)


def _paths(entry: SkillEntry) -> list[str]:
    root = skill_root(entry.uri)
    files = () if entry.resources is DYNAMIC else entry.resources
    return ["/".join(path_below(file.uri, root)) for file in files] or ["SKILL.md"]


def _skill_path(entry: SkillEntry) -> str:
    root = skill_root(entry.uri)
    if "%" not in root:
        return root.partition("://")[2]
    parts = split_uri(root)
    return "/".join((parts.authority, *parts.segments))
