"""Deciding on the review page: with forms alone, and for exactly what was shown."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from publishers import new_key
from scanning import BAD, change_policy, clean_machine, example, table, write_policy
from simulator import Simulator
from skillwire.consent import State
from skillwire.errors import ApprovalRequired
from skillwire.skill import Dynamic, digest_of
from skillwire.trust import SIGNATURE_FILE, Publisher, sign_files
from ui.visitor import BASE, PATIENCE, Visitor, revision, visiting

pytestmark = pytest.mark.anyio
ACME_KEY = new_key()
REFUNDS = "/skill?on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md"


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"scripts/pay.py": b"print(1)\n"}, fields={"allowed-tools": "Bash(pay:*)"})
    sim.skill("returns")
    return sim


async def state(visitor: Visitor, name: str = "refunds") -> State:
    return visitor.host.decide.status(await visitor.host.find(name)).state


async def test_the_inbox_has_what_waits_and_an_approval_empties_it(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        page = await visitor.page("/")
        assert "2 skills wait" in page
        assert "Bash(pay:*)" in page
        assert "1 script" in page
        answer = await visitor.post("/approve", await visitor.form("/", about="returns"))
        assert (answer.status_code, answer.headers["location"]) == (303, f"{visitor.root}/")
        page = await visitor.page("/")
        assert "returns is approved." in page
        assert "1 skill waits" in page
        assert await state(visitor, "returns") is State.APPROVED
        assert "returns is approved." not in await visitor.page("/")
        await visitor.post("/approve", await visitor.form(REFUNDS))
        assert (await visitor.host.load("refunds")).grants.allowed_tools is False
        assert "All decided" in await visitor.page("/")


async def test_a_live_update_leaves_the_notice_to_the_next_page(tmp_path: Path) -> None:
    """An open page may be fetched again between an answer and the page that the browser is led to."""
    async with visiting(tmp_path, shop=shop()) as visitor:
        await visitor.post("/approve", await visitor.form("/", about="returns"))
        update = await visitor.get("/", **{"skillwire-update": "1"})
        assert update.status_code == 200
        assert "returns is approved." not in update.text
        assert "returns is approved." in await visitor.page("/")


async def test_a_page_that_is_older_than_a_decision_hears_of_it_at_once(tmp_path: Path) -> None:
    """An approval is revoked while a page waits for a file; the page opens its event stream after that."""
    sim, more, pages = shop(), anyio.Event(), list[str]()
    async with visiting(tmp_path, shop=sim) as visitor:
        for name in ("refunds", "returns"):
            await visitor.host.decide.approve(await visitor.host.find(name))
        form = await visitor.form(REFUNDS.replace("refunds", "returns"), action="/revoke")
        form["uri"] = form["uri"].replace("returns", "refunds")
        reading = sim.hold("resources/read", more)

        async def revoke() -> None:
            with anyio.fail_after(PATIENCE):
                await reading.wait()
            assert (await visitor.post("/revoke", form)).status_code == 303
            pages.append(await visitor.page("/servers"))
            more.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(revoke)
            pages.append(await visitor.page(REFUNDS))
        [newer, page] = pages
        assert 'class="tag ok">approved<' in page
        assert revision(page) < revision(newer)
        assert b"event: change" in await visitor.first_event(page)
        assert 'class="tag new">not approved<' in await visitor.page(REFUNDS)


def item_of(page: str, name: str) -> str:
    """The part of the inbox about one skill."""
    [item] = [part for part in page.split("<li ") if f">{name}</a>" in part]
    return item


def tricky() -> Simulator:
    """Skills that nobody should approve without reading them, and one that is plain."""
    sim = shop()
    sim.skill("hidden", body="Do it.\u200b\u202e\n")
    sim.skill("inside", files={"references/a.md": "Read\u200bme.\n".encode()})
    sim.skill("tools", fields={"allowed-tools": "Bash(rm:*)"})
    sim.skill("large", files={f"f{number}.md": b"x" for number in range(40)})
    return sim


@pytest.mark.parametrize(
    ("name", "badge"),
    [
        ("refunds", "1 script"),
        ("hidden", "2 hidden characters"),
        ("inside", "1 hidden character"),
        ("tools", "asks for 1 tool"),
        ("large", "unreadable here"),
    ],
)
async def test_a_skill_with_a_badge_is_not_approved_unread(tmp_path: Path, name: str, badge: str) -> None:
    async with visiting(tmp_path, shop=tricky()) as visitor:
        await visitor.form("/", about="returns")
        item = item_of(await visitor.page("/"), name)
        assert f'<span class="tag alert">{badge}</span>' in item
        assert 'data-key="a"' not in item
        page = f"/skill?on=shop&uri=skill%3A%2F%2F{name}%2FSKILL.md"
        form = await visitor.form("/", about=f"skill://{name}/SKILL.md", action="/decline")
        await visitor.post("/approve", form)
        assert await state(visitor, name) is State.NOT_APPROVED
        assert f"{name} is not approved: open it first ({badge}" in await visitor.page("/")
        assert badge in await visitor.page(page)
        await visitor.post("/approve", form)
        assert await state(visitor, name) is State.APPROVED


async def test_tools_that_were_approved_before_need_no_second_reading(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("tools", fields={"allowed-tools": "Bash(rm:*)"})
    async with visiting(tmp_path, shop=sim) as visitor:
        await visitor.host.decide.approve(await visitor.host.find("tools"))
        sim.skill("tools").change_body("Other.\n")
        await visitor.host.refresh()
        item = await visitor.form("/", about="tools")
        await visitor.post("/approve", item)
        assert await state(visitor, "tools") is State.APPROVED


async def test_hidden_characters_of_a_description_leave_a_mark(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("odd", description="Pays \u202eyenom back.\u200b")
    async with visiting(tmp_path, shop=sim) as visitor:
        for path in ("/", "/skills", REFUNDS.replace("refunds", "odd")):
            page = await visitor.page(path)
            assert 'title="RIGHT-TO-LEFT OVERRIDE">U+202E</mark>yenom' in page, path
            assert "\u202e" not in page


async def test_selected_skills_are_declined_together(tmp_path: Path) -> None:
    sim = tricky()
    async with visiting(tmp_path, shop=sim) as visitor:
        page = await visitor.page("/")
        picks = re.findall(r'name="pick" form="bulk" id="[^"]*" value="([^"]*)"', page)
        assert len(picks) == 6
        names = ("returns", "tools")
        chosen = [pick for pick in picks for name in names if f'value="{pick}"' in item_of(page, name)]
        form = await visitor.form("/", action="/decline-selected")
        sim.skill("tools").change_body("Other.\n")
        await visitor.host.refresh()
        answer = await visitor.client.post(
            visitor.at("/decline-selected"),
            data={**form, "pick": [*chosen, "nothing sha256:0"]},
            headers={"origin": BASE},
        )
        assert answer.status_code == 303
        page = await visitor.page("/")
        assert "1 skill declined." in page
        assert "is not what was shown" in page
        assert await state(visitor, "returns") is State.DECLINED
        assert await state(visitor, "tools") is State.NOT_APPROVED


async def test_the_inbox_shows_one_server_alone(tmp_path: Path) -> None:
    other = Simulator()
    other.skill("deploy")
    async with visiting(tmp_path, shop=shop(), team=other) as visitor:
        page = await visitor.page("/")
        assert f'href="{visitor.root}/?from=team"' in page
        page = await visitor.page("/?from=team")
        assert ">deploy</a>" in page
        assert ">refunds</a>" not in page


async def test_a_page_that_the_users_own_rules_emptied_says_which(tmp_path: Path) -> None:
    options = {"hidden": lambda: ["All 2 skills of <shop> are hidden by rules: change them."]}
    async with visiting(tmp_path, app_options=options, shop=Simulator()) as visitor:
        for path in ("/", "/skills"):
            page = await visitor.page(path)
            assert "All 2 skills of &lt;shop&gt; are hidden by rules: change them." in page
            assert "servers add NAME URL" not in page
    async with visiting(tmp_path, app_options=options, shop=shop()) as visitor:
        assert "are hidden by rules" not in await visitor.page("/skills")


async def test_the_page_names_each_file_with_its_size_and_digest(tmp_path: Path) -> None:
    sim = shop()
    sim.skill("live").is_dynamic = True
    async with visiting(tmp_path, shop=sim) as visitor:
        skill = await visitor.host.find("refunds")
        page = await visitor.page(REFUNDS)
        assert not isinstance(skill.entry.resources, Dynamic)
        for file in skill.entry.resources:
            assert f'title="{file.digest}"' in page
        page = await visitor.page(REFUNDS.replace("refunds", "live"))
        assert "Its server lists no digests." in page
        assert '/approve"' not in page


async def test_the_page_says_since_when_it_knows(tmp_path: Path) -> None:
    sim = shop()
    sim.skill("live").is_dynamic = True
    async with visiting(tmp_path, shop=sim) as visitor:
        for path in (REFUNDS, "/servers"):
            assert re.search(r"as of \d\d:\d\d:\d\d UTC, listed again every 60 s", await visitor.page(path))
        assert "checked when loaded" in await visitor.page(REFUNDS.replace("refunds", "live"))


async def test_powers_are_granted_one_by_one(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form(REFUNDS)
        await visitor.post("/approve", {**form, "allow_tools": "1"})
        grants = (await visitor.host.load("refunds")).grants
        assert (grants.allowed_tools, grants.execute_code) == (True, False)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize("path", ["/approve", "/decline"])
async def test_what_changed_since_it_was_shown_is_not_decided(tmp_path: Path, path: str) -> None:
    sim = shop()
    async with visiting(tmp_path, shop=sim) as visitor:
        form = await visitor.form(REFUNDS)
        sim.skill("refunds").change_body("Something else.\n")
        await visitor.host.refresh()
        await visitor.post(path, form)
        assert await state(visitor) is State.NOT_APPROVED
        assert "is not what was shown" in await visitor.page("/")


async def test_an_approval_needs_the_digest_that_was_shown(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form(REFUNDS)
        for digest in ("", "sha256:" + "0" * 64, "nonsense"):
            await visitor.post("/approve", {**form, "digest": digest})
            assert await state(visitor) is State.NOT_APPROVED


async def test_what_was_declined_is_not_loaded_and_not_asked_about_until_it_changes(tmp_path: Path) -> None:
    sim = shop()
    asked: list[str] = []

    async def ask(request: object) -> bool:
        asked.append("")
        return True

    async with visiting(tmp_path, shop=sim, host_options={"ask": ask}) as visitor:
        await visitor.post("/decline", await visitor.form("/", about="refunds", action="/decline"))
        assert await state(visitor) is State.DECLINED
        assert "1 skill waits" in await visitor.page("/")
        with pytest.raises(ApprovalRequired, match="was declined by you"):
            await visitor.host.load("refunds")
        assert asked == []
        sim.skill("refunds").change_body("Something else.\n")
        await visitor.host.refresh()
        assert await state(visitor) is State.NOT_APPROVED
        assert "2 skills wait" in await visitor.page("/")


async def test_a_decision_can_be_undone(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        await visitor.post("/decline", await visitor.form("/", about="refunds", action="/decline"))
        await visitor.post("/revoke", await visitor.form("/", action="/revoke"))
        assert await state(visitor) is State.NOT_APPROVED
        await visitor.post("/approve", await visitor.form(REFUNDS))
        await visitor.post("/revoke", await visitor.form("/", action="/revoke"))
        assert await state(visitor) is State.NOT_APPROVED


async def test_the_page_of_a_skill_tells_what_was_decided_when_and_how(tmp_path: Path) -> None:
    sim = shop()
    async with visiting(tmp_path, shop=sim) as visitor:
        assert "No decision yet." in await visitor.page(REFUNDS)
        await visitor.post("/approve", await visitor.form(REFUNDS))
        sim.skill("refunds").change_body("Something else.\n")
        await visitor.host.refresh()
        await visitor.host.consent.flush()
        await visitor.post("/decline", await visitor.form(REFUNDS))
        page = await visitor.page(REFUNDS)
        history = page[page.index("History") :]
        order = [history.index(f"<strong>{word}</strong>") for word in ("declined", "changed", "approved")]
        assert order == sorted(order)
        assert "approved on the review page" in history


async def test_what_another_process_decides_is_seen(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        assert "2 skills wait" in await visitor.page("/")
        other_host = visitor.host.consent
        from skillwire.consent import ConsentStore

        assert other_host.path is not None
        skill = await visitor.host.find("refunds")
        key = other_host.key(skill.origin, skill.uri)
        await ConsentStore(other_host.path).decline(key, visitor.host.decide.review(skill).digest or "")
        assert await visitor.host.consent.refresh() is True
        assert await visitor.host.consent.refresh() is False
        assert "1 skill waits" in await visitor.page("/")


async def test_files_are_a_tree_of_folders_that_needs_no_script(tmp_path: Path) -> None:
    sim = Simulator()
    few = {"references/eu/vat.md": b"1\n", "references/limits.md": b"2\n", "a&b/<i>.txt": b"3\n"}
    sim.skill("few", files=few)
    sim.skill("many", files={f"part-{n // 50}/{n:03}.md": b"x\n" for n in range(300)})
    sim.skill("deep", files={"/".join(["d"] * 30) + "/end.md": b"x\n"})
    async with visiting(tmp_path, shop=sim) as visitor:

        def address(name: str, file: str = "") -> str:
            return f"/skill?on=shop&uri=skill%3A%2F%2F{name}%2FSKILL.md&file={file}"

        page = await visitor.page(address("few", "references/eu/vat.md"))
        assert re.findall(r'<summary><span class="path">(.*?)</span>', page) == [
            "a%26b/",
            "references/",
            "eu/",
        ]
        assert page.count("<details open>") == 3
        assert "<i>" not in page
        assert re.search(r'aria-current="page"><span class="path">vat.md</span>', page)
        # Of many files only the folder of the one that is shown is open; its count is of all pages.
        page = await visitor.page(address("many", "part-1/060.md"))
        assert page.count("<details open>") == 1
        assert page.count("<details>") == 3
        assert page.count('<span class="size">50 files</span>') == 4
        page = await visitor.page(address("deep"))
        assert page.count("<details open>") == 8
        assert f'<span class="path">{"d/" * 22}end.md</span>' in page


async def test_what_a_skill_says_of_itself_is_escaped_and_cleaned(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("odd", description="Use for <b onclick=x>\u202etxt.", fields={"license": "<i>\u200bMIT"})
    async with visiting(tmp_path, shop=sim) as visitor:
        for path in ("/", "/skills", REFUNDS.replace("refunds", "odd")):
            page = await visitor.page(path)
            assert "&lt;b onclick=x&gt;" in page
            assert "<b onclick" not in page
            assert "<i>" not in page
            assert not {"\u202e", "\u200b"} & set(page)


def signed_shop() -> Simulator:
    """A server with a skill that acme signed."""
    plain = Simulator().skill("refunds")
    listed = {path: digest_of(data) for path, data in plain.files.items()}
    sim = Simulator()
    sim.skill("refunds", files={SIGNATURE_FILE: sign_files(listed, name="refunds", key=ACME_KEY)})
    return sim


async def test_what_a_required_publisher_signed_waits_for_approval_and_is_approved(tmp_path: Path) -> None:
    publishers = [Publisher("acme", keys=[ACME_KEY.public_key()])]
    options = {"config": {"require": ("acme",)}, "host_options": {"publishers": publishers}}
    async with visiting(tmp_path, shop=signed_shop(), **options) as visitor:
        assert "All decided" not in await visitor.page("/")
        page = await visitor.page(REFUNDS)
        assert "signed by acme" in page
        assert "has not been checked" not in page
        await visitor.post("/approve", await visitor.form("/", about="refunds"))
        assert await state(visitor) is State.APPROVED
        assert "All decided" in await visitor.page("/")


async def test_not_everything_is_decided_while_a_skill_without_digests_is_not_approved(
    tmp_path: Path,
) -> None:
    sim = Simulator()
    sim.skill("live", dynamic=True)
    async with visiting(tmp_path, shop=sim) as visitor:
        page = await visitor.page("/")
        assert "All decided" not in page
        assert ">live</a>" in page
        assert "not approved" in page


@pytest.mark.process
async def test_findings_of_scanners_are_shown_and_a_threshold_refuses_in_the_words_of_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    write_policy(tmp_path, table(example(tmp_path)))
    sim = Simulator()
    sim.skill("refunds", files={"a.md": BAD.replace(b"curl", "<b>\u202ecurl".encode())})
    async with visiting(tmp_path, shop=sim) as visitor:
        inbox = await visitor.page("/")
        assert "not scanned yet" in inbox, "it has to be opened first"
        form = await visitor.form(REFUNDS)
        page = await visitor.page(REFUNDS)
        assert "downloads: 1 error" in page
        assert "1 finding" in page
        assert "&lt;b&gt;" in page
        assert "<b>" not in page
        assert "\u202e" not in page
        await visitor.post("/approve", form)
        assert await state(visitor) is State.APPROVED
        await change_policy(tmp_path, visitor.host, table(example(tmp_path), "error"))
        page = await visitor.page(REFUNDS)
        assert "refused (policy acme)" in page
        assert "the policy acme refuses it by scanners.downloads: 1 error" in page
        assert "refused (policy acme)" in await visitor.page("/skills")
