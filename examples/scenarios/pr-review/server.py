"""A small forge: one pull request, tools that review it, and a skill that says in which order.

It serves its skill as servers of the April draft do, with an index. `python server.py` speaks stdio, and
`python server.py --http PORT` streamable HTTP. What was called is appended to the file in FORGE_LOG.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

SKILLS = Path(__file__).parent / "skills"
SKILL = "skill://pull-requests/SKILL.md"
DESCRIPTION = "Reviews pull requests of this forge. Use it before you write anything to a pull request."

server = MCPServer("forge")


def log(tool: str, **arguments: object) -> None:
    """Note a call, for whoever judges what a model did."""
    if path := os.environ.get("FORGE_LOG"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"tool": tool, **arguments}) + "\n")


@server.resource("skill://index.json", mime_type="application/json")
def index() -> str:
    entry = {
        "type": "skill-md",
        "name": "pull-requests",
        "description": DESCRIPTION,
        "url": SKILL,
    }
    return json.dumps({"skills": [entry]})


@server.resource(SKILL, mime_type="text/markdown")
def skill() -> str:
    log("read SKILL.md")
    return (SKILLS / "pull-requests/SKILL.md").read_text("utf-8")


@server.resource("skill://pull-requests/references/GUIDE.md", mime_type="text/markdown")
def guide() -> str:
    log("read GUIDE.md")
    return (SKILLS / "pull-requests/references/GUIDE.md").read_text("utf-8")


@server.tool()
def get_pull_request(number: int) -> str:
    """The title and the changes of a pull request."""
    log("get_pull_request", number=number)
    return f"#{number} Retry uploads\n\n+    while True:\n+        upload(file)"


@server.tool()
def post_review(number: int, text: str, verdict: str) -> str:
    """Posts a whole review in a single step."""
    log("post_review", number=number, text=text, verdict=verdict)
    return "posted"


@server.tool()
def open_pending_review(number: int) -> str:
    """Internal."""
    log("open_pending_review", number=number)
    return "review 41 is pending"


@server.tool()
def attach_review_note(review: int, path: str, line: int, text: str) -> str:
    """Internal."""
    log("attach_review_note", review=review, path=path, line=line, text=text)
    return "attached"


@server.tool()
def finish_review(review: int, verdict: str) -> str:
    """Internal."""
    log("finish_review", review=review, verdict=verdict)
    return f"review {review} was submitted: {verdict}"


if __name__ == "__main__":
    if "--http" in sys.argv:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[sys.argv.index("--http") + 1]))
    else:
        server.run("stdio")
