"""LegacyFeatures: what a server offers to clients without the extension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

IndexShape: TypeAlias = Literal["d2", "d3", "d4", "off"]
ToolsMode: TypeAlias = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFeatures:
    """What is served to clients without the extension; `docs/clients.md` says which client uses what.

    `index` is the format of `skill://index.json`. With `tools="auto"`, the tools are hidden from clients with
    the extension; with `every_tool`, the tools for searching and for listing files are always included.
    `listed` adds the index, the manifests and the XML to `resources/list`, `files` the supporting files of
    all skills.
    """

    index: IndexShape = "d2"
    manifests: bool = True
    prompt_xml: bool = True
    tools: ToolsMode = "auto"
    prompts: bool = True
    listed: bool = False
    every_tool: bool = False
    files: bool = False


ALL_OFF = LegacyFeatures(index="off", manifests=False, prompt_xml=False, tools="never", prompts=False)
"""No legacy features."""
