"""What a policy decides: each rule, and layers that together are never wider than any of them."""

from __future__ import annotations

import ast
import os
import random
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillwire
from properties import examples
from sample_entries import DEMO, LOCAL, checked, make_entry
from skillwire.consent import State, status_of
from skillwire.errors import PolicyRefused
from skillwire.limits import DEFAULT_LIMITS
from skillwire.trust import (
    ALL_GRANTS,
    UNSIGNED,
    AdmissionRequest,
    Allowed,
    ApprovalMode,
    Ask,
    Denied,
    FindingLevel,
    Grants,
    LayerKind,
    Patterns,
    Permission,
    Policy,
    PolicyLayer,
    PolicyPublisher,
    Purpose,
    Scan,
    Scanner,
    SignatureState,
    SignatureVerdict,
    Subject,
    TeamApproval,
    admit,
    approve,
    git_name,
    require,
    resource_set,
    shown_digest,
    url_name,
)
from skillwire.trust.policy import judge, judge_steps, may_have, may_run

ENTRY = checked(files={"scripts/pay.py": b"pay"})
SITE = "https://docs.example.org/mcp"
SUBJECT = Subject(entry=ENTRY, sources=(SITE,))
FILES = resource_set(ENTRY)
FILE = next(digest for uri, digest in FILES if uri.endswith("pay.py"))
TEAM = PolicyPublisher(name="team", pems=("pem",), signers=frozenset({"key:team"}))
ACME = PolicyPublisher(
    name="acme", pems=("pem",), signers=frozenset({"key:acme"}), require=Patterns(["https://*"])
)
BY_ACME = SignatureVerdict(SignatureState.SIGNED, publisher="whoever", signer="key:acme")


SCANNER = Scanner(name="secrets", command=("/usr/bin/scan",), seconds=60, refuse=FindingLevel.WARNING)


def found(*levels: FindingLevel, scanner: Scanner = SCANNER, problem: str = "") -> dict[str, Scan]:
    counts = tuple((level, 1) for level in sorted(levels, reverse=True))
    return {scanner.key: Scan(scanner=scanner.name, counts=counts, problem=problem)}


NOTES, WARNINGS, ERRORS = found(FindingLevel.NOTE), found(FindingLevel.WARNING), found(FindingLevel.ERROR)
FAILED = found(problem="it ended with 2")


def layer(kind: LayerKind = LayerKind.MACHINE, **values: object) -> PolicyLayer:
    return replace(PolicyLayer(kind=kind, place="/etc/policy.toml", name="acme"), **values)  # type: ignore[arg-type]


def rule(one: PolicyLayer, subject: Subject = SUBJECT) -> str:
    found = judge(one, subject)
    return "" if found is None else found.rule


@pytest.mark.parametrize(
    ("values", "subject", "refused"),
    [
        ({}, SUBJECT, ""),
        ({"problem": "it cannot be read"}, SUBJECT, "policy"),
        ({"allow": Patterns([])}, SUBJECT, "sources.allow"),
        ({"allow": Patterns(["https://docs.example.org/*"])}, SUBJECT, ""),
        ({"allow": Patterns(["https://docs.example.org"])}, SUBJECT, ""),
        ({"allow": Patterns(["https://docs.example.org/mcp/acme/refunds"])}, SUBJECT, ""),
        ({"allow": Patterns(["https://docs.example.org/mcp/acme/refund"])}, SUBJECT, "sources.allow"),
        ({"allow": Patterns(["https://docs.example"])}, SUBJECT, "sources.allow"),
        ({"allow": Patterns(["HTTPS://DOCS.example.org/*"])}, SUBJECT, "sources.allow"),
        ({"allow": Patterns(["folder:*", "https://*"])}, SUBJECT, ""),
        ({"deny": Patterns(["*/acme/*"], ignore_case=True)}, SUBJECT, "sources.deny"),
        ({"deny": Patterns(["*/ACME/*"], ignore_case=True)}, SUBJECT, "sources.deny"),
        ({"deny": Patterns(["*/acm/*"])}, SUBJECT, ""),
        ({"allow": Patterns(["*"]), "deny": Patterns(["*/refunds"])}, SUBJECT, "sources.deny"),
        ({"revoked": {FILE: "leaks"}}, SUBJECT, "revoked"),
        ({"revoked": {shown_digest(ENTRY): "leaks"}}, SUBJECT, "revoked"),
        ({"revoked": {"sha256:" + "0" * 64: "leaks"}}, SUBJECT, ""),
        ({"publishers": (ACME,)}, SUBJECT, ""),  # It is not known yet who signed it.
        ({"publishers": (ACME,)}, replace(SUBJECT, signature=UNSIGNED), "publishers.acme"),
        ({"publishers": (ACME,)}, replace(SUBJECT, signature=BY_ACME), ""),
        (
            {"publishers": (ACME,)},
            replace(SUBJECT, signature=replace(BY_ACME, publisher="acme", signer="key:of-the-user")),
            "publishers.acme",
        ),
        (
            {"publishers": (ACME,)},
            replace(SUBJECT, signature=replace(BY_ACME, state=SignatureState.DIFFERS)),
            "publishers.acme",
        ),
        ({"publishers": (ACME,)}, replace(SUBJECT, signature=UNSIGNED, sources=("folder:project",)), ""),
        ({"by": ("team",), "publishers": (TEAM,)}, SUBJECT, "approvals.by"),
        (
            {"by": ("team",), "publishers": (TEAM,)},
            replace(SUBJECT, team=(TeamApproval(signer="key:team"),)),
            "",
        ),
        (
            {"by": ("team",), "publishers": (TEAM,)},
            replace(SUBJECT, team=(TeamApproval(signer="key:other"),)),
            "approvals.by",
        ),
        ({"by": ("user",)}, SUBJECT, ""),
        ({"scanners": (SCANNER,)}, SUBJECT, ""),  # It has not been scanned yet.
        ({"scanners": (SCANNER,)}, replace(SUBJECT, scans={}), "scanners.secrets"),
        ({"scanners": (SCANNER,)}, replace(SUBJECT, scans=found()), ""),
        ({"scanners": (SCANNER,)}, replace(SUBJECT, scans=NOTES), ""),
        ({"scanners": (SCANNER,)}, replace(SUBJECT, scans=WARNINGS), "scanners.secrets"),
        ({"scanners": (SCANNER,)}, replace(SUBJECT, scans=ERRORS), "scanners.secrets"),
        ({"scanners": (SCANNER,)}, replace(SUBJECT, scans=FAILED), "scanners.secrets"),
        ({"scanners": (replace(SCANNER, refuse=None),)}, replace(SUBJECT, scans=ERRORS), ""),
        ({"scanners": (replace(SCANNER, refuse=None),)}, replace(SUBJECT, scans=FAILED), ""),
        # Of another command, or of the same with other rules.
        (
            {"scanners": (SCANNER,)},
            replace(SUBJECT, scans=found(scanner=replace(SCANNER, command=("/bin/true",)))),
            "scanners.secrets",
        ),
        (
            {"scanners": (SCANNER,)},
            replace(SUBJECT, scans=found(scanner=replace(SCANNER, reads=("/opt",)))),
            "scanners.secrets",
        ),
        (
            {
                "registries": (("acme", "https://docs.example.org/"),),
                "allow": Patterns(["registry:acme/acme/*"]),
            },
            SUBJECT,
            "",
        ),
        (
            {"registries": (("acme", "https://docs.example.org"),), "allow": Patterns(["registry:acme/b/*"])},
            SUBJECT,
            "sources.allow",
        ),
        (
            {"registries": (("acme", "https://docs.example"),), "allow": Patterns(["registry:acme/*"])},
            SUBJECT,
            "sources.allow",
        ),
    ],
)
def test_each_rule_of_a_layer(values: dict[str, Any], subject: Subject, refused: str) -> None:
    assert rule(layer(**values), subject) == refused
    reporting = Policy((layer(**values, reports_only=True),))
    assert reporting.refusal(subject) is None
    assert [one.rule for one in reporting.reported(subject)] == [refused] * bool(refused)


def test_a_file_that_was_seen_of_a_dynamic_skill_is_refused_when_it_is_revoked() -> None:
    dynamic = checked(dynamic=True)
    assert (
        rule(layer(revoked={FILE: "leaks"}), Subject(entry=dynamic, sources=(SITE,), seen=FILES)) == "revoked"
    )


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a*a", ["aa", "aba/below"], ["a"]),
        ("*", [""], []),
        ("a", ["a/b"], ["ab", "a\n"]),
        ("*b*c", ["abdc"], ["acb"]),
        ("a.c", [], ["abc"]),
        ("[ab]", [], ["a"]),
        ("a*", ["a\nb"], []),
        ("*a" * 40 + "b", [], ["a" * 4000]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    for texts, fits in ((matching, True), (others, False)):
        for text in texts:
            assert Patterns([pattern]).matches([text]) is fits, text
            assert Patterns(["other", pattern]).named([text]) == (pattern if fits else "")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*/SECRET/*", "x/secret/y"),
        ("*/secret/*", "x/SeCrEt/y"),
        # Letters that are another spelling of an ASCII letter.
        ("*/secret/*", "x/\u017fecret/y"),
        ("*/\u017fecret/*", "x/secret/y"),
        ("*/kelvin/*", "x/\u212aelvin/y"),
        ("*/istanbul/*", "x/\u0130stanbul/y"),
    ],
)
def test_no_spelling_of_a_letter_evades_a_pattern_that_ignores_case(pattern: str, text: str) -> None:
    assert Patterns([pattern], ignore_case=True).matches([text])
    assert not Patterns([pattern]).matches([text])


@pytest.mark.parametrize(
    ("name", "spellings"),
    [
        (
            "https://docs.example.org/mcp",
            ["https://Docs.Example.ORG:443/mcp/?token=1#x", "https://docs.example.org./mcp"],
        ),
        ("https://evil.example/mcp", ["https://docs.example.org@evil.example/mcp"]),
        (
            "https://docs.example.org/evil",
            ["https://docs.example.org/good/../evil", "https://docs.example.org/good/%2e%2e/evil"],
        ),
        ("http://127.0.0.1:8080", ["http://127.0.0.1:8080"]),
        ("https://[::1]:8443/a", ["https://[::1]:8443/a"]),
        ("invalid:", ["https://host:port/"]),
    ],
)
def test_an_address_has_one_spelling(name: str, spellings: list[str]) -> None:
    assert [url_name(url) for url in spellings] == [name] * len(spellings)


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("https://git.example.org/a/b.git", "git+https://git.example.org/a/b"),
        ("git+https://me:secret@git.example.org/a/b", "git+https://git.example.org/a/b"),
        ("git@git.example.org:a/b.git", "git+ssh://git.example.org/a/b"),
        ("ssh://git@git.example.org:22/a/b", "git+ssh://git.example.org/a/b"),
        ("/srv/repository", "git+file:///srv/repository"),
    ],
)
def test_a_repository_has_one_spelling(repository: str, name: str) -> None:
    assert git_name(repository) == name


TOOLS_ENTRY = replace(
    make_entry(files={"scripts/pay.py": b"pay"}, fields={"allowed-tools": "Read Bash(git:*)"})
)
RUN = frozenset({("scripts/pay.py", "run"), ("scripts/pay.py", "net:example.org")})
EVERY = Grants(allowed_tools=True, execute_code=True, scripts=RUN)


@pytest.mark.parametrize(
    ("tools", "scripts", "left"),
    [
        ({}, {}, EVERY),
        ({"Bash": Permission.NEVER}, {}, replace(EVERY, allowed_tools=False)),
        ({"bash*": Permission.SANDBOX_ONLY}, {}, replace(EVERY, allowed_tools=False)),
        ({"Write": Permission.NEVER}, {}, EVERY),
        ({"*": Permission.ASK}, {"*": Permission.ASK}, EVERY),
        ({}, {"*": Permission.SANDBOX_ONLY}, replace(EVERY, execute_code=False)),
        ({}, {"*": Permission.NEVER}, Grants(allowed_tools=True)),
        ({}, {"scripts/*": Permission.NEVER, "*": Permission.ASK}, Grants(allowed_tools=True)),
        ({}, {"refunds/scripts/pay.py": Permission.NEVER}, Grants(allowed_tools=True)),
        ({}, {"other.py": Permission.NEVER}, EVERY),
    ],
)
def test_permissions_take_grants_away(
    tools: dict[str, Permission], scripts: dict[str, Permission], left: Grants
) -> None:
    def rules(given: dict[str, Permission]) -> tuple[tuple[Patterns, Permission], ...]:
        return tuple((Patterns([one], ignore_case=True), level) for one, level in given.items())

    policy = Policy((layer(tools=rules(tools), scripts=rules(scripts)),))
    assert policy.limit(EVERY, Subject(entry=TOOLS_ENTRY, sources=(SITE,))) == left
    assert (may_run(policy.enforced, TOOLS_ENTRY, "scripts/pay.py") is not None) is (not left.scripts), (
        "what has no grant in the sandbox may never run"
    )


# One step of the admission


def candidate(*layers: PolicyLayer, **values: object) -> AdmissionRequest:
    made = AdmissionRequest(origin=DEMO, entry=ENTRY, policy=Policy(layers), sources=(SITE,))
    return replace(made, **values)  # type: ignore[arg-type]


DENYING = layer(deny=Patterns(["*"]), contact="security@example.org")


def test_what_a_policy_refuses_is_listed_and_neither_offered_nor_installed_nor_loaded() -> None:
    refused = candidate(DENYING, approval=approve(ENTRY, DEMO, grants=ALL_GRANTS))
    assert admit(refused, Purpose.LIST) == Allowed()
    for act in (Purpose.OFFER, Purpose.INSTALL, Purpose.LOAD):
        decision = admit(refused, act)
        assert isinstance(decision, Denied)
        assert decision.refusal is not None
    with pytest.raises(PolicyRefused, match=r"policy acme refuses it by sources\.deny.*ask security@example"):
        require(admit(refused, Purpose.LOAD), ENTRY.uri, DEMO)
    status = status_of(refused, limits=DEFAULT_LIMITS)
    assert status.words == "refused (policy acme)"
    assert "ask security@example.org" in status.problem
    assert not status.waits


def test_the_users_own_files_and_a_mode_of_always_do_not_pass_a_policy() -> None:
    own = replace(candidate(DENYING, approval_mode=ApprovalMode.ALWAYS), origin=LOCAL)
    assert isinstance(admit(own, Purpose.LOAD), Denied)
    assert isinstance(admit(replace(own, origin=DEMO), Purpose.LOAD), Denied)


def test_a_pinned_publisher_is_checked_at_a_load_and_at_an_installation() -> None:
    signed = layer(publishers=(ACME,))
    for act in (Purpose.LOAD, Purpose.INSTALL):
        assert isinstance(admit(candidate(signed), act), Denied)
        assert isinstance(admit(candidate(signed, signature=UNSIGNED), act), Denied)
        assert not isinstance(admit(candidate(signed, signature=BY_ACME), act), Denied)
    assert isinstance(admit(candidate(signed), Purpose.OFFER), Allowed)
    assert (
        status_of(candidate(signed), limits=DEFAULT_LIMITS).words
        == "not approved (signature not checked yet)"
    )
    assert status_of(candidate(signed, signature=UNSIGNED), limits=DEFAULT_LIMITS).state is State.REFUSED


def test_a_threshold_is_checked_at_a_load_and_at_an_installation() -> None:
    scanned = layer(scanners=(SCANNER,))
    for act in (Purpose.LOAD, Purpose.INSTALL):
        assert isinstance(admit(candidate(scanned), act), Denied), "what was not scanned is not clean"
        assert isinstance(admit(candidate(scanned, scans=FAILED), act), Denied)
        assert not isinstance(admit(candidate(scanned, scans=NOTES), act), Denied)
        assert not isinstance(admit(candidate(replace(scanned, reports_only=True)), act), Denied)
        assert not isinstance(admit(candidate(scanned).before_scan, act), Denied)
        assert isinstance(admit(candidate(scanned, scans=ERRORS).before_scan, act), Denied)
    assert isinstance(admit(candidate(scanned), Purpose.OFFER), Allowed)
    assert isinstance(admit(candidate(scanned, scans=ERRORS), Purpose.OFFER), Denied)
    # Before it was scanned, its state is that of its approval.
    approved = candidate(scanned, approval=approve(ENTRY, DEMO))
    assert status_of(approved, limits=DEFAULT_LIMITS).state is State.APPROVED
    refused = status_of(replace(approved, scans=ERRORS), limits=DEFAULT_LIMITS)
    assert refused.words == "refused (policy acme)"
    assert refused.problem == "the policy acme refuses it by scanners.secrets: 1 error"


def test_layers_that_name_the_same_command_share_a_scan_and_each_has_its_threshold() -> None:
    mild = replace(SCANNER, name="mine", seconds=5, refuse=FindingLevel.ERROR)
    policy = Policy((layer(scanners=(SCANNER,)), layer(LayerKind.USER, scanners=(mild,))))
    [one] = policy.scanners
    assert (one.name, one.seconds) == ("secrets", 5)
    assert policy.refusal(replace(SUBJECT, scans=NOTES)) is None
    by_both = policy.refusal(replace(SUBJECT, scans=WARNINGS))
    assert by_both is not None
    assert by_both.rule == "scanners.secrets", "the strictest holds"


BY_TEAM = layer(by=("team",), publishers=(TEAM,))
FROM_TEAM = TeamApproval(signer="key:team", grants=Grants(execute_code=True), approved_at="2026-11-18T09:00")


def test_an_approval_of_the_user_does_not_replace_that_of_a_team() -> None:
    alone = candidate(BY_TEAM, approval=approve(ENTRY, DEMO, grants=ALL_GRANTS))
    assert isinstance(admit(alone, Purpose.LOAD), Denied)
    assert isinstance(admit(replace(alone, origin=LOCAL), Purpose.LOAD), Denied)
    assert isinstance(admit(alone, Purpose.INSTALL), Allowed), (
        "a host asks for the approval when it is loaded"
    )


def test_an_approval_of_a_team_loads_a_skill_with_the_grants_of_the_team() -> None:
    approved = candidate(BY_TEAM, team=(FROM_TEAM,))
    decision = admit(approved, Purpose.LOAD)
    assert isinstance(decision, Allowed)
    assert decision.approved
    assert decision.grants == Grants(execute_code=True)
    assert status_of(approved, limits=DEFAULT_LIMITS).words == "approved (by team on 2026-11-18)"
    with_user = replace(approved, approval=approve(ENTRY, DEMO, grants=ALL_GRANTS))
    decision = admit(with_user, Purpose.LOAD)
    assert isinstance(decision, Allowed)
    assert decision.grants == Grants(execute_code=True), "the user grants no more than the team"
    assert isinstance(admit(replace(approved, declined=True), Purpose.LOAD), Denied)
    assert isinstance(admit(replace(approved, approval_mode=ApprovalMode.NEVER), Purpose.LOAD), Denied)


def test_every_layer_wants_one_of_its_own_approvers() -> None:
    user = layer(LayerKind.USER, by=("user",))
    both = candidate(BY_TEAM, user, team=(FROM_TEAM,))
    assert isinstance(admit(both, Purpose.LOAD), Ask)
    assert isinstance(admit(replace(both, approval_mode=ApprovalMode.ALWAYS), Purpose.LOAD), Ask)
    assert isinstance(admit(replace(both, approval=approve(ENTRY, DEMO)), Purpose.LOAD), Allowed)


def test_what_a_reporting_layer_would_refuse_is_loaded_and_reported() -> None:
    reporting = candidate(replace(DENYING, reports_only=True), approval=approve(ENTRY, DEMO))
    decision = admit(reporting, Purpose.LOAD)
    assert isinstance(decision, Allowed)
    assert [one.rule for one in decision.reported] == ["sources.deny"]


DECIDES = {"judge", "may_run", "approved_by_team", "needs_person", "missing_signer", "unsigned"}
DECIDES |= {"failed_scan", "unscanned"}
EXPLAINS = {"cli/policy.py"}
BEFORE = {"may_have": {"cli/policy.py"}}
"""What only says that there is nothing to decide, and who asks that."""


def test_no_other_place_than_the_admission_decides_by_a_policy() -> None:
    source = Path(skillwire.__file__).parent
    deciding: set[str] = set()
    before: dict[str, set[str]] = {name: set() for name in BEFORE}
    named = {*DECIDES, *BEFORE, "refusal", "limit", "reported"}
    for path in source.rglob("*.py"):
        place = path.relative_to(source).as_posix()
        text = path.read_text("utf-8")
        if not any(f"{name}(" in text for name in named):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            # Other things have a `refusal` too; that of a policy is asked with a subject.
            if name in DECIDES or (
                name in ("refusal", "limit", "reported") and "subject" in ast.unparse(node).lower()
            ):
                deciding.add(place)
            elif name in BEFORE:
                before[name].add(place)
    assert deciding - EXPLAINS == {"trust/admission.py", "trust/policy.py"}
    assert before == BEFORE


# Layers together

_NAMES = ["acme", "team", "user"]
_PATTERNS = [
    "*",
    "https://*",
    "https://docs.example.org/*",
    "*/acme/*",
    "folder:*",
    "folder:project",
    "*/b",
    "git+*",
]
_SOURCES = [(SITE,), ("folder:project",), ("git+https://git.example.org/a/b",), ("folder:user", SITE)]


def random_layer(draw: random.Random) -> PolicyLayer:
    def some(of: list[str]) -> list[str]:
        return draw.sample(of, draw.randint(0, 2))

    def rules(of: list[str]) -> tuple[tuple[Patterns, Permission], ...]:
        return tuple((Patterns([one]), draw.choice(list(Permission))) for one in some(of))

    return PolicyLayer(
        kind=draw.choice(list(LayerKind)),
        place=draw.choice(["/a", "/b", "/c"]),
        name=draw.choice(["one", "two"]),
        reports_only=draw.random() < 0.2,
        problem="broken" if draw.random() < 0.02 else "",
        allow=Patterns(draw.sample(_PATTERNS, draw.randint(1, 5))) if draw.random() < 0.4 else None,
        deny=Patterns(some(_PATTERNS[3:]) if draw.random() < 0.3 else []),
        publishers=(TEAM, replace(ACME, require=Patterns(some(_PATTERNS)))),
        tools=rules(["*", "Read", "Bash"]),
        scripts=rules(["*", "scripts/*", "other"]),
        by=tuple(draw.sample(_NAMES, draw.randint(0, 2))) if draw.random() < 0.3 else (),
        scanners=(replace(SCANNER, refuse=draw.choice([None, FindingLevel.NOTE, FindingLevel.ERROR])),)
        if draw.random() < 0.3
        else (),
        revoked={FILE: "leaks"} if draw.random() < 0.05 else {},
    )


def random_subject(draw: random.Random) -> Subject:
    return Subject(
        entry=draw.choice([TOOLS_ENTRY, ENTRY]),
        sources=draw.choice(_SOURCES),
        signature=draw.choice([None, UNSIGNED, BY_ACME]),
        scans=draw.choice([None, found(), NOTES, WARNINGS, ERRORS, FAILED]),
        team=draw.choice([(), (FROM_TEAM,), (replace(FROM_TEAM, grants=ALL_GRANTS),)]),
    )


def covers(wide: Grants, narrow: Grants) -> bool:
    return (
        wide.allowed_tools >= narrow.allowed_tools
        and wide.execute_code >= narrow.execute_code
        and wide.scripts >= narrow.scripts
    )


STACKS = int(os.environ.get("POLICY_STACKS", "1000" if os.environ.get("QUICK") else "10000"))
"""How many random stacks are tried; `POLICY_STACKS=100000` before a release."""


def test_a_stack_of_layers_is_never_wider_than_any_of_them_in_any_order() -> None:
    draw = random.Random(36)
    layers = [random_layer(draw) for _ in range(400)]
    subjects = [random_subject(draw) for _ in range(60)]
    refused = 0
    for _ in range(STACKS):
        stack = tuple(draw.choices(layers, k=draw.randint(1, 5)))
        subject = draw.choice(subjects)
        policy = Policy(stack)
        decision = policy.refusal(subject)
        alone = [Policy((one,)) for one in stack]
        assert (decision is None) == all(one.refusal(subject) is None for one in alone)
        grants = policy.limit(EVERY, subject)
        assert all(covers(one.limit(EVERY, subject), grants) for one in alone)
        assert policy.needs_person(subject) == any(one.needs_person(subject) for one in alone)
        shuffled = Policy(tuple(draw.sample(stack, len(stack))))
        again = shuffled.refusal(subject)
        assert (again and again.message) == (decision and decision.message)
        assert shuffled.limit(EVERY, subject) == grants
        refused += decision is not None
    assert STACKS / 10 < refused < STACKS * 9 / 10, "both answers are tried"


@examples(100)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_an_admission_with_more_layers_is_never_wider(seed: int, count: int) -> None:
    draw = random.Random(seed)
    stack = [random_layer(draw) for _ in range(count)]
    subject = random_subject(draw)
    base = AdmissionRequest(
        origin=DEMO,
        entry=ENTRY,
        approval=approve(ENTRY, DEMO, grants=ALL_GRANTS) if draw.random() < 0.7 else None,
        approval_mode=draw.choice([ApprovalMode.PROMPT, ApprovalMode.ALWAYS]),
        sources=subject.sources,
        signature=subject.signature,
        scans=subject.scans,
        team=subject.team,
    )
    fewer = admit(replace(base, policy=Policy(tuple(stack[:-1]))), Purpose.LOAD)
    more = [admit(replace(base, policy=Policy(order)), Purpose.LOAD) for order in permutations(stack)]
    assert len({type(one) for one in more}) == 1
    if isinstance(more[0], Allowed):
        # An approval of a team may stand for that of the user, where a layer names the team.
        assert isinstance(fewer, Allowed) or more[0].team
        if isinstance(fewer, Allowed) and base.approval is not None:
            assert covers(fewer.grants, more[0].grants)


def test_each_rule_of_a_layer_is_judged_apart_from_the_others() -> None:
    whole = layer(
        registries=(("own", SITE),),
        deny=Patterns((SITE,)),
        allow=Patterns(("https://other.example.org/*",)),
        publishers=(PolicyPublisher(name="acme", pems=(), signers=frozenset(), require=Patterns(("*",))),),
        revoked={FILE: "it leaks"},
        by=("acme",),
    )
    steps = judge_steps(whole, replace(SUBJECT, signature=UNSIGNED))
    assert [rule for rule, _ in steps] == [
        "revoked",
        "sources.deny",
        "sources.allow",
        "publishers.acme",
        "approvals.by",
    ]
    assert all(reason for _, reason in steps)
    assert "it leaks" in dict(steps)["revoked"]
    assert judge_steps(layer(deny=Patterns(("https://other.example.org/*",))), SUBJECT) == [
        ("sources.deny", "")
    ]
    assert judge_steps(layer(problem="it cannot be read"), SUBJECT) == [("policy", "it cannot be read")]


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({}, None),
        ({"problem": "it cannot be read"}, "policy"),
        ({"deny": Patterns((SITE,))}, "sources.deny"),
        ({"deny": Patterns((f"{SITE}/skills/*",))}, None),
        ({"allow": Patterns((f"{SITE}/skills/*",))}, None),
        ({"allow": Patterns(("https://other.example.org/*",))}, "sources.allow"),
        ({"registries": (("own", SITE),), "deny": Patterns(("registry:own",))}, "sources.deny"),
    ],
)
def test_a_place_is_refused_if_no_skill_of_it_can_be_admitted(
    values: dict[str, Any], rule: str | None
) -> None:
    refusal = may_have(layer(**values), [SITE])
    assert (refusal and refusal.rule) == rule
