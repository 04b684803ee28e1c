"""SkillPrompts: one MCP prompt for each skill, which clients show as a slash command."""

from __future__ import annotations

import mcp_types as types
from mcp.shared.exceptions import MCPError

from skillwire.errors import AmbiguousName, FormatError, SkillNotFound
from skillwire.json_types import JsonObject, JsonValue
from skillwire.server.catalog import cut_page
from skillwire.server.handlers import Context, is_modern
from skillwire.server.legacy.names import SkillNames
from skillwire.server.legacy.tools import LegacyFeature, skill_text, waiting
from skillwire.skill.entries import SkillEntry

_TASK = "task"


class SkillPrompts(LegacyFeature):
    """The prompts. Each has one optional argument, the task to use the skill for."""

    _names: SkillNames | None = None

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        current = await self._current()
        names = sorted(current.names)
        try:
            cursor = params.cursor if params else None
            page = cut_page(names, names, cursor, size=self._library.page_size, listing="prompts")
        except FormatError as error:
            raise MCPError(types.INVALID_PARAMS, error.issues[0].message) from None
        prompts: list[JsonValue] = [_prompt(name, current.names[name]) for name in page.items]
        result: JsonObject = {"prompts": prompts}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        if is_modern(ctx):
            scope = self._options.cache_scope
            result.update(resultType="complete", ttlMs=self._library.ttl_ms(), cacheScope=scope)
        return result

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> JsonObject:
        try:
            entry = (await self._current()).find(params.name)
            text = await skill_text(self._library, entry, self._texts, limits=self._options.limits)
        except (SkillNotFound, AmbiguousName) as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"name": params.name}) from None
        task = (params.arguments or {}).get(_TASK, "").strip()
        if task:
            text = f"{text.rstrip()}\n\nUse this skill for the following task:\n{task}\n"
        message: JsonObject = {"role": "user", "content": {"type": "text", "text": text}}
        result: JsonObject = {"description": entry.description, "messages": [message]}
        if is_modern(ctx):
            result["resultType"] = "complete"
        return result

    async def knows(self, name: str) -> bool:
        """Whether there is a skill with this name."""
        try:
            (await self._current()).find(name)
        except SkillNotFound:
            return False
        except AmbiguousName:
            return True
        return True

    async def _current(self) -> SkillNames:
        catalog = await self._library.catalog()
        if self._names is None or self._names.catalog is not catalog:
            self._names = SkillNames(catalog)
        return self._names


def _prompt(name: str, entry: SkillEntry) -> JsonObject:
    argument: JsonObject = {"name": _TASK, "description": "The task to use the skill for.", "required": False}
    description = entry.description + waiting(entry)
    return {"name": name, "description": description, "arguments": [argument]}
