"""The whole way, from a folder of skills to a client that has checked what it read.

`make demo` runs this. It starts `skillwire serve examples/skills` as a program of its own, connects to it
over stdio as any MCP client would, lists what is there, and reads one skill.
"""

import asyncio
import hashlib
import shutil
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from rich.console import Console
from rich.table import Table

EXTENSION = "io.modelcontextprotocol/skills"
SKILLS = Path(__file__).parent / "skills"
CHOSEN = "skill://git-commit-review/SKILL.md"

console = Console(highlight=False)


class SkillPage(types.PaginatedResult):
    """A page of `skills/list`."""

    skills: list[dict[str, Any]]


async def main() -> None:
    # The command beside the Python that runs this file, so that the demo needs nothing on the PATH.
    command = shutil.which("skillwire", path=str(Path(sys.executable).parent))
    if command is None:
        sys.exit("The command skillwire is not installed beside this Python. Run: make demo")
    server = StdioServerParameters(command=command, args=["serve", str(SKILLS)])

    console.print(
        "\n[bold]Skillwire gives a folder of skills to every MCP client. Here is how that looks.[/]\n"
    )
    console.print("[bold cyan]1.[/] A client starts [bold]skillwire serve examples/skills[/], which says:\n")
    async with Client(server, extensions=[advertise(EXTENSION)]) as client:
        skills = await list_skills(client)
        console.print(
            f"\n[bold cyan]2.[/] The client asks [bold]skills/list[/] and learns of {len(skills)} skills:\n"
        )
        console.print(as_table(skills))

        entry = next(skill for skill in skills if skill["uri"] == CHOSEN)
        console.print(f"\n[bold cyan]3.[/] It reads [bold]{CHOSEN}[/], and checks it before use:\n")
        text = await read_checked(client, entry)
        console.print(text, markup=False, soft_wrap=True, style="dim")

    console.print("[bold]That is all.[/] With skills of your own:\n")
    console.print("   .venv/bin/skillwire lint ./my-skills     shows every mistake and its remedy")
    console.print("   .venv/bin/skillwire serve ./my-skills    is what an MCP client starts\n")


async def list_skills(client: Client) -> list[dict[str, Any]]:
    """Every skill that the server lists, page after page."""
    skills: list[dict[str, Any]] = []
    cursor = None
    while True:
        request = types.PaginatedRequest(
            method="skills/list", params=types.PaginatedRequestParams(cursor=cursor)
        )
        page = await client.session.send_request(request, SkillPage)
        skills += page.skills
        cursor = page.next_cursor
        if cursor is None:
            return skills


async def read_checked(client: Client, entry: dict[str, Any]) -> str:
    """The text of a SKILL.md, when it is what the server's entry says it is."""
    (content,) = (await client.read_resource(entry["uri"])).contents
    assert isinstance(content, types.TextResourceContents)
    data = content.text.encode("utf-8")
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    listed = next(file for file in entry["resources"] if file["uri"] == entry["uri"])
    if (digest, len(data)) != (listed["digest"], listed["size"]):
        sys.exit(f"{entry['uri']} is not what the server listed; it is not used")
    console.print(f"   [green]✓[/] {len(data):,} bytes, as listed")
    console.print(f"   [green]✓[/] digest {digest[:23]}…, as listed\n")
    return content.text


def as_table(skills: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("   name", no_wrap=True)
    table.add_column("files", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("description")
    for skill in skills:
        path = skill["uri"].removeprefix("skill://").removesuffix("/SKILL.md")
        size = sum(file["size"] for file in skill["resources"])
        first_sentence = skill["frontmatter"]["description"].partition(". ")[0]
        table.add_row(f"   {path}", str(len(skill["resources"])), f"{size:,}", first_sentence)
    return table


if __name__ == "__main__":
    asyncio.run(main())
