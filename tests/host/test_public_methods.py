"""SkillHost has what an agent uses, and no more."""

from __future__ import annotations

import inspect

from skillwire import SkillHost

AT_MOST = 24


def test_a_host_has_no_more_methods_than_an_agent_uses() -> None:
    members = {name for name, _ in inspect.getmembers_static(SkillHost) if not name.startswith("_")}
    assert len(members) <= AT_MOST, "put it on the object that does it, such as host.decide"
