"""Each caller has a token, permissions, approvals and a view of their own, and learns nothing of others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from clients import META, both_eras, call, modern_request, refusal
from gateways import User, connected_to, joined, make_gateway, serving, text_of, write_callers
from properties import examples
from publishers import new_key
from scanning import change_policy, clean_machine, write_policy
from simulator import Simulator
from skillwire.access import Caller, CallerFile, Credential, RateLimit
from skillwire.access.callers import parse_callers, resolve
from skillwire.access.identity import token_digest
from skillwire.errors import FormatError
from skillwire.gateway import AuditLog, Gateway, GatewayOptions
from skillwire.host.policies import policy_log
from skillwire.limits import Limits
from skillwire.server import ServerOptions
from skillwire.skill import SkillUri, digest_of
from skillwire.trust import SIGNATURE_FILE, sign_files
from waiting import PATIENCE, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


MODERN = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "subscriptions/listen",
}
LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {"_meta": META, "notifications": {"resourcesListChanged": True}},
}


def server(*names: str) -> Simulator:
    simulator = Simulator()
    for name in names:
        simulator.skill(name.rpartition("/")[2], path=name, files={"note.md": name.encode()})
    return simulator


@both_eras
async def test_over_http_each_caller_sees_what_their_token_allows(tmp_path: Path, version: str) -> None:
    file = tmp_path / "callers.toml"
    tokens = write_callers(
        file,
        alice={"labels": ["docs"]},
        bob={"include": ["*/guides/*"], "exclude": ["docs/guides/secret"]},
    )
    options = GatewayOptions(callers=CallerFile(file))
    gateway = make_gateway(
        tmp_path, options, docs=server("intro", "guides/setup", "guides/secret"), shop=server("guides/buy")
    )
    seen: dict[str, list[str]] = {}
    async with serving(gateway) as url:
        for name, token in tokens.items():
            async with connected_to(url, token, version, user=User()) as client:
                listed = (await call(client, "skills/list"))["skills"]
                seen[name] = [entry["uri"].removeprefix("skill://") for entry in listed]
                if name == "bob":
                    for uri in ("skill://docs/guides/secret/SKILL.md", "skill://docs/intro/SKILL.md"):
                        hidden = await refusal(client, "resources/read", uri=uri)
                        absent = await refusal(client, "resources/read", uri=uri.replace("SKILL", "NONE"))
                        assert hidden.code == absent.code == -32602
                        assert hidden.message == absent.message.replace("NONE", "SKILL")
                read = await client.read_resource(listed[0]["uri"])
                assert "Do it" in text_of(read)
    assert seen == {
        "alice": ["docs/guides/secret/SKILL.md", "docs/guides/setup/SKILL.md", "docs/intro/SKILL.md"],
        "bob": ["docs/guides/setup/SKILL.md", "shop/guides/buy/SKILL.md"],
    }


@pytest.mark.slow
async def test_a_token_is_needed_and_can_be_revoked_while_the_gateway_runs(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    tokens = write_callers(file, alice={}, bob={})
    callers = CallerFile(file)
    gateway = make_gateway(tmp_path, GatewayOptions(callers=callers), docs=server("intro"))
    async with serving(gateway) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
        assert (await http.post(url)).status_code == 401
        assert (await http.post(url, headers={"Authorization": "Bearer wrong"})).status_code == 401
        known = {"Authorization": f"Bearer {tokens['alice']}"}
        async with http.stream("POST", url, json=LISTEN, headers={**known, **MODERN}) as stream:
            lines = stream.aiter_lines()
            assert stream.status_code == 200
            assert "acknowledged" in "".join([await anext(lines) for _ in range(3)])
            file.write_text("")
            bob = write_callers(file, bob={})["bob"]
            # The stream of who is revoked ends, and so does their token.
            with anyio.fail_after(PATIENCE):
                assert [line async for line in lines if line.startswith("data")] == []
        assert (await http.post(url, headers=known)).status_code == 401
        async with connected_to(url, bob) as client:
            assert len((await call(client, "skills/list"))["skills"]) == 1


async def test_other_permissions_count_with_the_next_request(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    token = write_callers(file, alice={"labels": ["docs"]})["alice"]
    callers = CallerFile(file)
    gateway = make_gateway(
        tmp_path, GatewayOptions(callers=callers), docs=server("intro"), shop=server("buy")
    )
    async with serving(gateway) as url, connected_to(url, token) as client:
        before = [entry["uri"] for entry in (await call(client, "skills/list"))["skills"]]
        file.write_text(file.read_text().replace("docs", "shop"))
        await callers.refresh()
        after = [entry["uri"] for entry in (await call(client, "skills/list"))["skills"]]
    assert (before, after) == (["skill://docs/intro/SKILL.md"], ["skill://shop/buy/SKILL.md"])


def test_a_header_that_is_sent_twice_is_passed_on_to_nobody() -> None:
    credential = Credential(header="x-github-token")
    sent = [(b"x-github-token", b" one "), (b"x-other", b"two")]
    assert resolve(credential, sent) == "one"
    assert resolve(credential, [*sent, (b"x-github-token", b"three")]) == ""
    assert resolve(credential, []) == ""


def test_tokens_are_not_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    tokens = write_callers(file, alice={"labels": ["Docs"]})
    text = file.read_text()
    assert tokens["alice"] not in text
    assert token_digest(tokens["alice"].encode()) in text
    found = CallerFile(file).find(tokens["alice"].encode())
    assert found is not None
    assert (found.name, found.labels, found.is_operator) == ("alice", frozenset({"docs"}), False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "there is no key x"),
        ("[callers.a]", "token is not sha256:"),
        ('[callers.a]\ntoken = "secret"', "the token itself is not stored"),
        ('[callers."a b"]\ntoken = "sha256:' + "0" * 64 + '"', "is not a name"),
        ('[callers.a]\ntoken = "sha256:' + "0" * 64 + '"\nlabels = "docs"', "labels is not a list"),
        ('[callers.a]\ntoken = "sha256:' + "0" * 64 + '"\nlabel = []', "there is no key label"),
        (
            '[callers.a]\ntoken = "sha256:' + "0" * 64 + '"\n[callers.a.credentials.x]\nname = "A"',
            "needs one of token_env and pass_header",
        ),
        (
            '[callers.a]\ntoken = "sha256:' + "0" * 64 + '"\ncredentials.x.pass_header = "Authorization"',
            "is not passed on",
        ),
        (
            '[callers.a]\ntoken = "sha256:' + "0" * 64 + '"\n[callers.b]\ntoken = "sha256:' + "0" * 64 + '"',
            "b has the token of a",
        ),
        ("[callers", "it is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        parse_callers(text, "callers.toml")


@pytest.mark.slow
async def test_callers_with_credentials_of_their_own_share_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server shows each token what it may see; nobody rides on another one's login."""
    upstream = make_gateway(
        tmp_path / "upstream",
        GatewayOptions(approval="listed", callers=CallerFile(upstream_file(tmp_path))),
        docs=server("public", "of-alice", "of-bob"),
    )
    tokens: dict[str, str] = json.loads((tmp_path / "tokens.json").read_text())
    monkeypatch.setenv("ALICE_DOCS", tokens["alice"])
    file = tmp_path / "callers.toml"
    mine = write_callers(file, alice={}, bob={}, carol={}, dave={})
    credentials = {
        "alice": 'token_env = "ALICE_DOCS"',
        "bob": 'pass_header = "x-docs"',
        "dave": 'token_env = "NONE"',
    }
    file.write_text(
        file.read_text()
        + "".join(f"\n[callers.{name}.credentials.up]\n{line}\n" for name, line in credentials.items())
    )
    async with serving(upstream) as upstream_url:
        from skillwire.host import ServerConfig

        gateway = make_gateway(
            tmp_path,
            GatewayOptions(approval="listed", callers=CallerFile(file)),
            up=ServerConfig(url=upstream_url, token=tokens["public"]),
        )
        seen: dict[str, list[str]] = {}
        async with serving(gateway) as url:
            for name, headers in {
                "alice": {},
                "bob": {"x-docs": tokens["bob"]},
                "carol": {},
                "dave": {},
            }.items():
                async with connected_to(url, mine[name], **headers) as client:
                    listed = (await call(client, "skills/list"))["skills"]
                    seen[name] = [entry["frontmatter"]["name"] for entry in listed]
                    for entry in listed:
                        await client.read_resource(entry["uri"])
                    if name != "alice":
                        uri = "skill://up/docs/of-alice/SKILL.md"
                        assert (await refusal(client, "skills/get", uri=uri)).code == -32602
            async with connected_to(url, mine["bob"]) as client:
                assert (await call(client, "skills/list"))["skills"] == []
    assert seen == {
        "alice": ["of-alice", "public"],
        "bob": ["of-bob", "public"],
        "carol": ["public"],
        "dave": [],
    }


def upstream_file(folder: Path) -> Path:
    file = folder / "upstream.toml"
    tokens = write_callers(
        file,
        public={"include": ["docs/public"]},
        alice={"include": ["docs/public", "docs/of-alice"]},
        bob={"include": ["docs/public", "docs/of-bob"]},
    )
    (folder / "tokens.json").write_text(json.dumps(tokens))
    return file


LABELS = ("docs", "shop")
PATHS = ("intro", "guides/setup", "guides/secret", "internal/pay")
PATTERNS = ("docs/*", "*/guides/*", "shop/intro", "*", "*/secret", "docs/internal/pay", "sh?p/*")
callers = st.builds(
    Caller,
    name=st.sampled_from(["alice", "bob"]),
    labels=st.none() | st.frozensets(st.sampled_from(LABELS)),
    include=st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
    exclude=st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
)


class TestTwoCallers:
    """Random permissions, random requests: what one may not see is not there, in words and in kind."""

    async def test_what_a_caller_may_not_see_does_not_exist_for_them(self, tmp_path: Path) -> None:
        gateway = make_gateway(
            tmp_path, GatewayOptions(approval="listed"), docs=server(*PATHS), shop=server(*PATHS)
        )
        everything = [f"skill://{label}/{path}" for label in LABELS for path in PATHS]
        tried: list[tuple[Caller, Caller, str]] = []

        @settings(examples(60), database=None)
        @given(callers, callers, st.sampled_from([*everything, "skill://docs/nothing", "skill://none/x"]))
        def collect(one: Caller, other: Caller, root: str) -> None:
            tried.append((one, other, root))

        collect()
        async with gateway:
            for one, other, root in tried:
                for caller in (one, other):
                    await self.check(gateway, caller, root, everything)

    async def check(self, gateway: Gateway, caller: Caller, root: str, everything: list[str]) -> None:
        library = gateway.server(caller)
        allowed = [uri for uri in everything if caller.allows(SkillUri(uri))]
        async with library.open() as skills:
            listed = [entry.uri.removesuffix("/SKILL.md") for entry in await skills.entries()]
            assert listed == sorted(allowed)
            outcomes = [await outcome(skills, f"{root}/{path}") for path in ("SKILL.md", "note.md")]
            if root in allowed:
                assert [kind for kind, _ in outcomes] == ["bytes", "bytes"]
            else:
                absent = await outcome(skills, "skill://docs/absent/SKILL.md")
                said = absent[1].replace("skill://docs/absent/SKILL.md", "")
                for path, (kind, words) in zip(("SKILL.md", "note.md"), outcomes, strict=True):
                    assert (kind, words.replace(f"{root}/{path}", "")) == ("missing", said)
            for directory in {uri.rpartition("/")[0] for uri in everything}:
                try:
                    children = (await skills.read_directory(SkillUri(directory), None)).items
                except Exception:
                    children = []
                assert all(any(f"{uri}/".startswith(f"{c.uri}/") for uri in allowed) for c in children)


async def outcome(skills: Any, uri: str) -> tuple[str, str]:
    from skillwire.errors import SkillNotFound

    try:
        return "bytes", (await skills.read(SkillUri(uri))).data.decode()
    except SkillNotFound as error:
        return "missing", str(error)


async def test_a_caller_who_floods_the_gateway_is_told_to_wait_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    tokens = write_callers(file, flood={}, calm={})
    options = GatewayOptions(callers=CallerFile(file))
    limits = ServerOptions(limits=Limits(http_requests_per_minute=60))
    gateway = make_gateway(tmp_path, options, limits, docs=server("intro"))
    async with serving(gateway) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
        headers = {"Authorization": f"Bearer {tokens['flood']}"}
        with anyio.fail_after(PATIENCE):
            while (refused := await http.get(url, headers=headers)).status_code != 429:
                pass
        async with connected_to(url, tokens["calm"]) as client:
            assert len((await call(client, "skills/list"))["skills"]) == 1
    assert int(refused.headers["retry-after"]) >= 1


def test_a_rate_recovers_with_time_and_open_requests_are_counted() -> None:
    now = [0.0]
    rates = RateLimit(60, 2, clock=lambda: now[0])
    assert [rates.wait_seconds("a") for _ in range(10)] == [0.0] * 10
    assert 0 < rates.wait_seconds("a") <= 1
    assert rates.wait_seconds("b") == 0
    now[0] += 1
    assert rates.wait_seconds("a") == 0
    assert [rates.begin("a") for _ in range(3)] == [True, True, False]
    rates.end("a")
    assert rates.begin("a")


async def test_a_thousand_callers_who_list_at_once_ask_each_server_once(tmp_path: Path) -> None:
    docs, shop = server("intro"), server("buy")
    async with make_gateway(tmp_path, docs=docs, shop=shop) as gateway:

        async def list_skills(number: int) -> None:
            async with gateway.server(Caller(name=f"caller-{number}")).open() as skills:
                assert len(await skills.entries()) == 2

        async with asyncio.TaskGroup() as tasks:
            for number in range(1000):
                tasks.create_task(list_skills(number))
    assert (len(docs.asked("skills/list")), len(shop.asked("skills/list"))) == (1, 1)


async def test_the_audit_log_has_a_line_for_each_act_and_no_content(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path)
    user = User("decline", "accept")
    gateway = make_gateway(tmp_path, GatewayOptions(audit=audit), docs=server("intro"))
    async with gateway, joined(gateway, user=user, caller=Caller(name="alice")) as client:
        await call(client, "skills/list")
        with pytest.raises(MCPError):
            await client.read_resource("skill://docs/intro/SKILL.md")
        await client.read_resource("skill://docs/intro/SKILL.md")
        await client.read_resource("skill://docs/intro/note.md")
        await call(client, "skills/get", uri="skill://docs/intro/SKILL.md")
    audit.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["act"] for line in lines] == ["list", "refuse", "approve", "load", "read", "get"]
    assert {line["caller"] for line in lines} == {"alice"}
    assert lines[3]["set"].startswith("sha256:")
    assert lines[3]["origin"] == "docs"
    assert lines[4]["file"] == "skill://docs/intro/note.md"
    assert "Do it" not in path.read_text()


async def test_reads_that_are_answered_from_the_cache_are_in_the_audit_log_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path)
    gateway = make_gateway(tmp_path, GatewayOptions(audit=audit, approval="listed"), docs=server("intro"))
    uri = "skill://docs/intro/SKILL.md"
    async with serving(gateway) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
        for method in ("resources/read", "skills/get"):
            for _ in range(5):
                assert uri in (await http.post(url, **modern_request(method, uri=uri))).text
    audit.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["act"] for line in lines] == ["load"] * 5 + ["get"] * 5
    assert {line["client"] for line in lines} == {"127.0.0.1"}


def test_a_renamed_audit_log_is_left_and_a_new_one_is_started(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path)
    audit.write("list", caller="a")
    eventually(path.read_text)
    path.rename(tmp_path / "old.jsonl")
    audit.write("list", caller="b")
    eventually(lambda: (tmp_path / "old.jsonl").read_text().count("\n") == 2)
    audit.reopen()
    audit.write("list", caller="c")
    audit.close()
    assert '"caller": "b"' in (tmp_path / "old.jsonl").read_text()
    assert '"caller": "c"' in path.read_text()


async def test_health_in_detail_and_metrics_are_for_operators(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    tokens = write_callers(file, alice={}, olga={})
    file.write_text(file.read_text().replace("[callers.olga]", "[callers.olga]\noperator = true"))
    docs = server("intro")
    docs.skill("liar").swap_body("Something else.")
    shop = server("buy")
    shop.refuse("skills/list")
    options = GatewayOptions(callers=CallerFile(file), approval="listed")
    gateway = make_gateway(tmp_path, options, docs=docs, shop=shop)
    async with serving(gateway) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
        base = url.removesuffix("/mcp")
        async with connected_to(url, tokens["alice"]) as client:
            await refusal(client, "resources/read", uri="skill://docs/liar/SKILL.md")

        async def ask(path: str, name: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {tokens[name]}"} if name else {}
            return await http.get(base + path, headers=headers)

        assert (await ask("/healthz", "")).json() == {"status": "ok"}
        for path in ("/healthz?detail", "/metrics"):
            assert (await ask(path, "")).status_code == 401
            assert (await ask(path, "alice")).status_code == 403
        health = (await ask("/healthz?detail", "olga")).json()
        metrics = (await ask("/metrics", "olga")).text
    assert [one["label"] for one in health["servers"]] == ["docs", "shop"]
    assert "skill://liar/SKILL.md" in health["not_served"][0]["reason"]
    assert "shop" in health["failures"][0]
    assert "skillwire_skills 1" in metrics


# A policy


def logged() -> list[tuple[str, str, bool]]:
    """The skill, the rule and whether it was refused, of each line of the log of the policy."""
    lines = map(json.loads, policy_log().read_text().splitlines())
    return [(line["skill"], line["rule"], line["refused"]) for line in lines]


@pytest.mark.parametrize("approval", ["required", "listed"])
async def test_what_the_policy_denies_no_caller_is_offered_or_reads_whoever_approved_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approval: Any
) -> None:
    clean_machine(tmp_path, monkeypatch)
    upstream, user = server("refunds", "letters"), User()
    denied, other = "skill://shop/refunds/SKILL.md", "skill://shop/letters/SKILL.md"
    asks = [("skills/get", denied), ("resources/read", denied)]
    asks += [("resources/read", "skill://shop/refunds/note.md")]
    alice = Caller(name="alice")
    gateway = make_gateway(tmp_path, GatewayOptions(approval=approval), shop=upstream)
    async with gateway, joined(gateway, caller=alice, user=user) as client:
        assert "Do it" in text_of(await client.read_resource(denied))
    upstream.requests.clear()
    user.asked.clear()
    write_policy(tmp_path, '[sources]\ndeny = ["*/refunds"]')
    audit = AuditLog(tmp_path / "audit.jsonl")
    async with make_gateway(
        tmp_path, GatewayOptions(approval=approval, audit=audit), shop=upstream
    ) as gateway:
        for caller in (alice, Caller(name="bob")):
            async with joined(gateway, caller=caller, user=user, knows_skills=False) as client:
                assert [one["uri"] for one in (await call(client, "skills/list"))["skills"]] == [other]
                for method, uri in asks:
                    said = await refusal(client, method, uri=uri)
                    assert "the policy acme refuses it by sources.deny" in said.message, method
                assert "refunds" not in text_of(await client.call_tool("search_skills", {"query": "refunds"}))
                loaded = await client.call_tool("load_skill", {"name": "refunds"})
                assert loaded.is_error
                assert "Do it" in text_of(await client.read_resource(other))
    audit.close()
    assert not any("refunds" in question.message for question in user.asked)
    assert not any("refunds" in read for read in upstream.read_uris())
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    refused = [line["caller"] for line in lines if line["act"] == "refuse" and "policy acme" in line["how"]]
    assert refused == ["alice"] * 3 + ["bob"] * 3
    assert set(logged()) == {("skill://refunds/SKILL.md", "sources.deny", True)}


async def test_a_policy_that_only_reports_serves_every_caller_and_logs_what_it_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    write_policy(tmp_path, 'mode = "report"\n[sources]\ndeny = ["*/refunds"]')
    gateway = make_gateway(tmp_path, shop=server("refunds", "letters"))
    async with gateway, joined(gateway, caller=Caller(name="alice"), user=User()) as client:
        listed = (await call(client, "skills/list"))["skills"]
        assert len(listed) == 2
        for entry in listed * 2:
            assert "Do it" in text_of(await client.read_resource(entry["uri"]))
    assert logged() == [("skill://refunds/SKILL.md", "sources.deny", False)]


@pytest.mark.parametrize("approval", ["required", "listed"])
async def test_a_signer_that_a_running_gateways_policy_asks_for_is_looked_for_and_no_other_text_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approval: Any
) -> None:
    clean_machine(tmp_path, monkeypatch)
    upstream, key = server("refunds", "letters"), new_key()
    for name in ("refunds", "letters"):
        upstream.skill(name).change_body("# How to\nDo it with receipts.\n")
    signed = upstream.skill("letters")
    digests = {path: digest_of(data) for path, data in signed.files.items()}
    signed.change_file(SIGNATURE_FILE, sign_files(digests, name="letters", key=key))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    text = f'[publishers.team]\nkeys = ["""{public}"""]\nrequire = ["*"]'
    gateway = make_gateway(tmp_path, GatewayOptions(approval=approval), shop=upstream)
    async with gateway, joined(gateway, user=User(), knows_skills=False) as client:
        uris = [f"skill://shop/{name}/SKILL.md" for name in ("letters", "refunds")]
        for uri in uris:
            assert "Do it" in text_of(await client.read_resource(uri))
        await change_policy(tmp_path, gateway.host, text)
        assert "Do it" in text_of(await client.read_resource(uris[0]))
        said = await refusal(client, "resources/read", uri=uris[1])
        assert "team must have signed it, and the skill is not signed" in said.message
        assert "refunds" not in text_of(await client.call_tool("search_skills", {"query": "receipts"}))
