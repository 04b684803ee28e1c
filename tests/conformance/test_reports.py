"""Reports: what is merged, chosen, known already, and how much memory a hostile answer costs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import skillwire
from conformance.clean_server import LEGACY, MODERN, CleanServer, Json
from conformance.defective_server import make_server
from skillwire.conformance import Baseline, Level, as_json, as_junit, as_sarif, as_text, messages
from skillwire.conformance.checks import merge
from skillwire.conformance.messages import TooManyValues, parse_message, same_json
from skillwire.conformance.rules import Violation
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS
from timeless import without_waiting

pytestmark = pytest.mark.anyio


async def test_one_finding_is_reported_once_when_the_revisions_word_an_error_differently() -> None:
    async def bend(_server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        if method == "skills/get" and "error" in answer:
            answer["error"] = {"code": -32603, "message": f"lookup failed on {params['era']}"}
        return answer

    server = make_server()
    server.bend = bend
    report = await skillwire.verify(server)
    [finding] = report.of("GET-1/unknown")
    assert finding.revisions == (LEGACY, MODERN)
    assert f"lookup failed on {LEGACY} (on {LEGACY}); " in finding.seen
    assert f"lookup failed on {MODERN} (on {MODERN})" in finding.seen


def test_violations_of_two_revisions_are_paired_by_rule_and_place() -> None:
    one, two, three = (Violation("ENT-2/complete", seen, "skill://a") for seen in ("x", "y", "z"))
    merged = list(merge({LEGACY: [one, two], MODERN: [one, three]}))
    assert [(violation.seen, revisions) for violation, revisions in merged] == [
        ("x", (LEGACY, MODERN)),
        (f"y (on {LEGACY}); z (on {MODERN})", (LEGACY, MODERN)),
    ]
    assert list(merge({LEGACY: [one], MODERN: []})) == [(one, (LEGACY,))]
    assert list(merge({LEGACY: [one, two], MODERN: [one]})) == [(one, (LEGACY, MODERN)), (two, (LEGACY,))]


async def test_a_baseline_lets_known_findings_pass_and_counts_fixed_ones() -> None:
    before = await skillwire.verify(make_server("size-wrong"))
    baseline = Baseline.parse(as_json(before))
    again = await skillwire.verify(make_server("size-wrong"), baseline=baseline)
    assert (len(again.violations), again.failures(), again.fixed) == (1, (), 0)
    assert json.loads(as_json(again))["ok"] is True
    assert "in the baseline" in as_text(again)
    assert 'failures="0"' in as_junit(again)
    other = await skillwire.verify(make_server("digest-wrong"), baseline=baseline)
    assert [finding.rule for finding in other.failures()] == ["ENT-3/digest"]
    assert other.fixed == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"findings": [1]}', "[" * 100_000])
def test_a_baseline_that_is_not_a_report_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="skillwire verify --json"):
        Baseline.parse(text)


async def test_only_the_chosen_rules_are_reported() -> None:
    report = await skillwire.verify(make_server("size-wrong"), only=["ENT-3/digest"])
    assert (report.findings, report.only) == ((), ("ENT-3/digest",))
    report = await skillwire.verify(make_server("size-wrong"), only=["ENT-3"])
    assert [finding.rule for finding in report.findings] == ["ENT-3/size"]
    assert f'tests="{as_junit(report).count("<testcase")}"' in as_junit(report)
    with pytest.raises(SourceError, match="is not a rule"):
        await skillwire.verify(make_server(), only=["ENT-99"])


async def test_the_level_that_fails_a_run_can_be_chosen() -> None:
    report = await skillwire.verify(make_server("same-name"))
    assert report.failures() == report.violations != ()
    assert report.failures(Level.MUST) == ()
    advice = await skillwire.verify(make_server("no-when"))
    assert advice.failures() == ()
    assert advice.failures(Level.ADVICE) == advice.advice != ()


async def test_debatable_rules_say_so_and_name_their_clause() -> None:
    report = await skillwire.verify(make_server("nested-not-had"))
    [finding] = report.violations
    text, document = as_text(report), json.loads(as_json(report))["findings"][0]
    assert (finding.rule, finding.level) == ("FMT-8/nested", Level.SHOULD)
    assert "debatable: " in text
    assert "#nested-skills" in text
    assert document["debatable"]
    assert document["link"].endswith("#nested-skills")


async def test_a_report_names_the_server_and_never_says_none() -> None:
    report = await skillwire.verify(make_server("markdown-untyped"))
    assert report.server == "clean 1"
    assert as_text(report).startswith("Skill server clean 1 (in this process)")
    assert "None" not in as_text(report) + as_json(report)


async def test_an_entry_without_a_valid_uri_is_counted_and_not_taken_for_one_beyond_the_limit() -> None:
    async def bend(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json:
        if method == "skills/list":
            answer["result"]["skills"][0]["uri"] = "skill://Bad Skill/SKILL.md"
        return answer

    server = make_server()
    server.bend = bend
    text = as_text(await skillwire.verify(server))
    assert "--max-skills" not in text
    assert "2 entries without a valid URI" in " ".join(text.split())


def test_json_is_compared_by_type_and_value() -> None:
    assert same_json({"a": [1, "x", None]}, {"a": [1.0, "x", None]})
    different = [(True, 1), (False, 0), (None, False), (1, "1"), ([], {}), ([1], [1, 2]), ({}, {"a": None})]
    for one, other in different:
        assert not same_json({"x": one}, {"x": other}), (one, other)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "unit", [b"{},", b"[],", b'"ab",', b"1234,", b'{"a":1},', b'"\xc3\xa9\xc3\xa9",', b'"\\"",']
)
def test_a_hostile_answer_is_refused_before_it_is_parsed(
    unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_parsing(*_arguments: object, **_options: object) -> object:
        raise AssertionError("it was parsed")

    # A thirtieth of both the answer and the limit: the proportion is what counts.
    monkeypatch.setattr(messages, "MOST_VALUES", messages.MOST_VALUES // 30)
    monkeypatch.setattr(json, "loads", no_parsing)
    with pytest.raises(TooManyValues):
        parse_message(b"[" + unit * (1024 * 1024 // len(unit)) + b"0]")


@pytest.mark.requirement("SEC-9")
def test_a_long_text_full_of_commas_is_parsed() -> None:
    message, values = parse_message(json.dumps({"text": ",:{[" * 300_000}).encode())
    assert isinstance(message, dict)
    assert values < 10


async def test_a_finding_shows_the_exchange_that_proves_it() -> None:
    report = await skillwire.verify(make_server("size-wrong"))
    [finding] = report.findings
    listed, read = finding.exchanges
    assert (listed.method, read.method) == ("skills/list", "resources/read")
    assert read.params == {"uri": finding.uri}
    assert finding.uri in json.dumps(listed.answer)
    assert '"size": 3' in json.dumps(listed.answer)
    text = as_text(report)
    assert "asked: resources/read" in text
    assert json.loads(as_json(report))["findings"][0]["exchanges"][1]["method"] == "resources/read"
    assert "asked: resources/read" in as_junit(report)


@without_waiting
@pytest.mark.parametrize("name", ["mute", "digest-wrong", "get-without-ttl", "no-when", "html-error"])
async def test_findings_of_every_area_have_an_exchange(name: str) -> None:
    limits = replace(DEFAULT_LIMITS, call_seconds=1)
    report = await skillwire.verify(make_server(name), limits=limits)
    assert report.findings
    assert all(finding.exchanges for finding in report.findings)


async def test_an_exchange_has_no_secret_of_ours_and_no_long_text() -> None:
    async def bend(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json:
        if method == "skills/get" and "error" in answer:
            return answer | {"error": {"code": -1, "message": "token s3cret-of-the-user " + "x" * 5000}}
        return answer

    server = make_server()
    server.bend = bend
    report = await skillwire.verify(server, token="s3cret-of-the-user")
    document = json.loads(as_json(report))
    shown = json.dumps([finding["exchanges"] for finding in document["findings"]])
    assert "skills/get" in shown
    assert "s3cret" not in shown
    assert "x" * 1000 not in shown


async def test_sarif_has_a_result_for_each_finding_with_its_rule_and_clause() -> None:
    before = await skillwire.verify(make_server("size-wrong"))
    report = await skillwire.verify(make_server("size-wrong"), baseline=Baseline.parse(as_json(before)))
    [run] = json.loads(as_sarif(report))["runs"]
    [result] = run["results"]
    [rule] = run["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["level"], result["baselineState"]) == (
        "ENT-3/size",
        "error",
        "unchanged",
    )
    assert rule["helpUri"].startswith("https://")
    assert "asked: resources/read" in result["message"]["text"]
    [place] = result["locations"][0]["logicalLocations"]
    assert place["fullyQualifiedName"] == report.findings[0].uri


async def test_a_quick_check_has_one_revision_and_asks_nothing_twice() -> None:
    server = make_server()
    asked: list[str] = []

    async def bend(_server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        asked.append(f"{method} {params.get('uri')} {params['era']}")
        return answer

    server.bend = bend
    report = await skillwire.verify(server, quick=True)
    assert report.findings == ()
    assert [revision.revision for revision in report.revisions] == [MODERN]
    reads = [one for one in asked if one.startswith("resources/read") and "/examples/email.md" in one]
    assert len(reads) == 1
    assert not any(LEGACY in one for one in asked)
    assert "quick check" in as_text(report)
    older = await skillwire.verify(make_server("no-modern"), quick=True)
    assert [revision.revision for revision in older.revisions] == [LEGACY]
    found = await skillwire.verify(make_server("digest-wrong"), quick=True)
    assert [finding.rule for finding in found.findings] == ["ENT-3/digest"]


async def test_a_profile_adds_what_its_consumer_demands() -> None:
    server = make_server()
    for number in range(6):
        server.tree.add(
            f"skill://more/skill-{number}",
            "Refund one order and tell the customer. Use when it is asked for.",
        )
    for number in range(11):
        server.tree.files[f"skill://more/skill-0/notes/{number}.txt"] = b"note\n"
    assert (await skillwire.verify(server, quick=True)).findings == ()
    report = await skillwire.verify(server, quick=True, profile="chatgpt")
    assert [finding.rule for finding in report.failures()] == ["PROFILE/skills", "PROFILE/files"]
    assert "ChatGPT" in report.findings[0].seen
    assert report.profile is not None
    assert report.profile.source in " ".join(as_text(report).split())
    with pytest.raises(SourceError, match="choose one of chatgpt, gemini"):
        await skillwire.verify(server, profile="nobody")
