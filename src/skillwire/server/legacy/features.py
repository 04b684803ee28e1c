"""LegacyFeatures: what a server offers to clients that do not know the extension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

IndexShape: TypeAlias = Literal["d2", "d3", "d4", "off"]
ToolsMode: TypeAlias = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFeatures:
    """What is served to clients that do not know the extension; `docs/clients.md` says which uses what.

    `index` is the format of `skill://index.json`. With `tools="auto"`, the tools are hidden from clients that
    know the extension; with `every_tool`, those for searching and for listing files are always among them.
    `listed` puts the index, the manifests and the XML into `resources/list`, `files` the supporting files of
    all skills, for clients that look for them there.
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
"""The extension only."""
