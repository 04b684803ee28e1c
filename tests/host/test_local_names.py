"""F10: a skill in a user's own folder works without a name or a description, as it does in Claude Code."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire import SkillHost
from trees import write

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "text",
    [
        b"---\ndescription: Deploys the site. Use when asked to deploy.\n---\n# Deploy\n\nRun it.\n",
        b"---\nname: Deploy It!\ndescription: Deploys the site.\n---\n# Deploy\n\nRun it.\n",
        b"---\nname: deploy\n---\n# Deploy\n\nRun it.\n",
        b"---\ndescription: Deploys: the site\n---\n# Deploy\n\nRun it.\n",
    ],
)
async def test_a_local_skill_is_listed_and_loaded_under_its_directorys_name(
    tmp_path: Path, text: bytes
) -> None:
    write(tmp_path / "skills/deploy/SKILL.md", text)
    async with SkillHost(
        directories=[tmp_path / "skills"],
        cache_directory=tmp_path / "cache",
        approvals_file=tmp_path / "approvals.sqlite",
        watch=False,
    ) as host:
        (skill,) = host.skills()
        assert skill.entry.name == "deploy"
        loaded = await host.load("deploy")
        assert "Run it." in loaded.text
