"""Skills that functions make. Run it from an MCP client, over stdio."""

import asyncio
from datetime import date

from skillwire import FunctionSource, SkillServer

skills = FunctionSource()


@skills.static("house/price-list")
def price_list():
    """Made once. Its files are listed with digests, so a host can hold what the user approved."""
    rows = "\n".join(f"{name},{price}" for name, price in {"tea": 3, "coffee": 4}.items())
    skill_md = """---
name: price-list
description: Our prices. Use when somebody asks what a drink costs.
---
The prices are in [prices.csv](prices.csv), in euros.
"""
    return {"SKILL.md": skill_md, "prices.csv": f"drink,price\n{rows}\n"}


@skills.dynamic("house/todays-menu")
async def todays_menu():
    """Made anew at each read. Nobody can say its bytes beforehand, so it is listed as dynamic."""
    return f"""---
name: todays-menu
description: What the kitchen offers today. Use when somebody asks for the menu.
---
Menu of {date.today():%A, %d %B}: soup of the day, bread, apple cake.
"""


if __name__ == "__main__":
    asyncio.run(SkillServer(skills, name="function-example").run_stdio())
