"""SkillHost has what an agent uses. What moved is still found under its old name."""

from __future__ import annotations

import inspect
import re
from operator import attrgetter
from pathlib import Path

import pytest

from simulator import Simulator, agree, opened
from skillwire import SkillHost
from skillwire.host.host import MOVED

pytestmark = pytest.mark.anyio

AT_MOST = 22
# Without `set_gates` and `forget_server`, which take or return something else now, and what only tools used.
VERSION_0_1 = {
    *("approvals", "approve", "cache", "catalog", "close", "events", "events_so_far", "find", "from_config"),
    *("granted_tools", "held", "is_loaded", "list_directory", "load", "may_execute", "mentions", "preview"),
    *("read", "read_bytes", "read_resource", "refresh", "refuse_path", "release", "revoke", "search"),
    *("server_view", "servers", "set_enabled", "skills", "standing", "tools"),
}
HOSTING = Path(__file__).parents[2] / "docs/hosting.md"


def public_members() -> set[str]:
    return {name for name, _ in inspect.getmembers_static(SkillHost) if not name.startswith("_")}


def test_a_host_has_no_more_methods_than_an_agent_uses() -> None:
    assert len(public_members()) <= AT_MOST, "put diagnosis into host.log and administration into host.admin"


@pytest.mark.parametrize("name", sorted(MOVED))
async def test_a_moved_name_works_and_says_where_it_is_now(name: str, tmp_path: Path) -> None:
    async with opened(tmp_path, shop=Simulator()) as host:
        with pytest.warns(
            DeprecationWarning, match=rf"host\.{name} has moved: use host\.{MOVED[name]}$"
        ) as told:
            found = getattr(host, name)
        assert told[0].filename == __file__
        if name != "is_loaded":
            assert found == attrgetter(MOVED[name])(host)


async def test_the_old_names_of_what_is_loaded_answer_as_before(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        with pytest.warns(DeprecationWarning, match="use host.active"):
            (held,) = getattr(host, "held")()  # noqa: B009
        skill = await host.find("refunds")
        assert (held.origin, held.entry, held.grants.execute_code) == (skill.origin, skill.entry, False)
        with pytest.warns(DeprecationWarning, match="use host.active"):
            is_loaded = getattr(host, "is_loaded")  # noqa: B009
        assert [is_loaded("refunds"), is_loaded(skill.uri), is_loaded("others")] == [True, True, False]


def test_every_name_of_version_0_1_is_there_or_has_moved() -> None:
    assert not VERSION_0_1 - public_members() - set(MOVED)


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="SkillHost has no attribute 'nonsense'"):
        getattr(SkillHost(), "nonsense")  # noqa: B009


def test_the_page_for_agents_lists_every_moved_name() -> None:
    section = HOSTING.read_text("utf-8").partition("### Names that moved")[2].partition("\n## ")[0]
    before = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    listed = {
        name.removeprefix("host.").partition("(")[0] for row in before for name in re.findall("`(.+?)`", row)
    }
    assert listed == set(MOVED)
