# ruff: noqa: E501 - a table of sentences
"""A labeled catalog of 2,000 generated skills, and the questions that are asked of it.

Every skill is about one task with one tool, so a question about a task and a tool has known answers. The words of
the questions are not those of the descriptions: people ask in sentences, with other forms of words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

# A tool, and how people refer to it.
TOOLS = {
    "terraform": "Terraform",
    "kubernetes": "Kubernetes",
    "docker": "Docker",
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "graphql": "GraphQL",
    "react": "React",
    "django": "Django",
    "rust": "Rust",
    "golang": "Go (golang)",
    "typescript": "TypeScript",
    "python": "Python",
    "cpp": "C++",
    "dotnet": ".NET",
    "ansible": "Ansible",
    "kafka": "Kafka",
    "elasticsearch": "Elasticsearch",
    "stripe": "Stripe",
    "salesforce": "Salesforce",
    "figma": "Figma",
    "excel": "Excel",
    "powerpoint": "PowerPoint",
    "email": "e-mail",
    "slack": "Slack",
    "jira": "Jira",
    "github": "GitHub",
    "gitlab": "GitLab",
    "jenkins": "Jenkins",
    "prometheus": "Prometheus",
    "grafana": "Grafana",
    "shopify": "Shopify",
    "wordpress": "WordPress",
    "android": "Android",
    "ios": "iOS",
    "unity": "Unity",
    "spark": "Spark",
    "airflow": "Airflow",
    "snowflake": "Snowflake",
    "nginx": "nginx",
    "vue": "Vue",
}

# A task, what a skill says about it, and how somebody asks for it.
TASKS = {
    "review": ("Reviews {tool} code for bugs, style and risky changes", "how do I review my {tool} code"),
    "test": ("Writes unit and integration tests for {tool}", "please help me to test my {tool} project"),
    "deploy": (
        "Deploys {tool} services to production, with rollback",
        "I want to deploy something with {tool}",
    ),
    "migrate": ("Migrates {tool} projects to a newer version", "what is the best way of migrating {tool}"),
    "debug": (
        "Debugs failing {tool} jobs and reads their stack traces",
        "can you help debugging a {tool} failure",
    ),
    "document": ("Writes documentation for {tool} modules", "I need to write documentation for {tool}"),
    "optimize": ("Finds slow spots in {tool} and optimizes performance", "our {tool} is slow, optimize it"),
    "secure": ("Audits {tool} for vulnerabilities and leaked secrets", "audit {tool} for vulnerabilities"),
    "monitor": ("Sets up monitoring and alerts for {tool}", "which skill sets up monitoring of {tool}?"),
    "backup": ("Creates and restores backups of {tool} data", "how can we restore a {tool} backup"),
    "design": (
        "Designs the architecture and data model of {tool} systems",
        "designing a data model in {tool}",
    ),
    "refactor": ("Refactors large {tool} files into small modules", "refactor a huge {tool} file"),
    "release": (
        "Prepares {tool} releases: changelog, version, tags",
        "prepare a release of our {tool} package",
    ),
    "onboard": (
        "Explains a {tool} code base to new team members",
        "explain the {tool} code base to a newcomer",
    ),
    "report": (
        "Summarizes {tool} activity in a weekly report",
        "summarize what happened in {tool} this week",
    ),
    "integrate": (
        "Connects {tool} with other systems by webhooks",
        "connect {tool} to another system with webhooks",
    ),
    "estimate": ("Estimates cost and effort of {tool} projects", "how much will a {tool} project cost"),
    "template": ("Starts a new {tool} project from a template", "start a new {tool} project"),
    "automate": ("Automates repetitive {tool} chores with scripts", "automate boring {tool} chores"),
    "translate": (
        "Translates texts of {tool} into other languages",
        "translate our {tool} texts into German",
    ),
    "import": ("Imports CSV and spreadsheet data into {tool}", "import a CSV file into {tool}"),
    "visualize": ("Draws charts and diagrams of {tool} data", "draw a chart from {tool} data"),
    "clean": ("Removes unused and stale {tool} resources", "get rid of unused {tool} resources"),
    "train": ("Prepares training material and exercises for {tool}", "exercises for a {tool} training"),
    "lint": ("Formats {tool} sources and fixes lint warnings", "fix the lint warnings in {tool}"),
}

_WHEN = " Use when {task} {tool} work is asked for, or when somebody mentions {tool}."
_FILLER = (
    " Follows the conventions of the team and asks before it changes anything.",
    " Works with small steps, and reports what it did.",
    "",
    " Includes examples, and a checklist for the end.",
)
COUNT = 2_000


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    tool: str
    task: str
    digest: str


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the names of the skills that answer it."""

    text: str
    answers: frozenset[str]
    kind: str


def skills() -> list[Skill]:
    """A thousand skills, one for each task and tool, and as many copies and variants of other teams."""
    made: list[Skill] = []
    for number, (tool, task) in enumerate(product(TOOLS, TASKS)):
        text = TASKS[task][0].format(tool=TOOLS[tool]) + "." + _WHEN.format(task=task, tool=TOOLS[tool])
        made.append(Skill(f"{tool}-{task}", text + _FILLER[number % 4], tool, task, f"{tool}-{task}"))
    # Every fourth is copied as it is; the others are variants with the words in another order.
    for number, skill in enumerate(list(made)):
        if len(made) == COUNT:
            break
        if number % 4 == 0:
            made.append(Skill(f"team-{skill.name}", skill.description, skill.tool, skill.task, skill.digest))
        else:
            text = f"For teams that use {TOOLS[skill.tool]}. {skill.description}"
            made.append(Skill(f"{skill.task}-{skill.tool}", text, skill.tool, skill.task, f"v{number}"))
    return made


def questions(catalog: list[Skill]) -> list[Question]:
    """75 sentences, 40 keyword queries, and 15 with typing errors or odd spellings."""

    def answers(tool: str, task: str) -> frozenset[str]:
        return frozenset(skill.name for skill in catalog if skill.tool == tool and skill.task == task)

    tools, tasks = list(TOOLS), list(TASKS)
    made: list[Question] = []
    for number in range(75):
        tool, task = tools[number * 7 % len(tools)], tasks[number % len(tasks)]
        name = TOOLS[tool].partition(" (")[0]
        made.append(Question(TASKS[task][1].format(tool=name), answers(tool, task), "sentence"))
    for number in range(40):
        tool, task = tools[number], tasks[number * 3 % len(tasks)]
        made.append(Question(f"{tool} {task}", answers(tool, task), "keywords"))
    odd = {
        "kuberntes deploy": ("kubernetes", "deploy"),
        "terrafrom review": ("terraform", "review"),
        "postgers backup": ("postgres", "backup"),
        "grafan monitor": ("grafana", "monitor"),
        "elastisearch optimize": ("elasticsearch", "optimize"),
        "C++ lint": ("cpp", "lint"),
        ".NET migrate": ("dotnet", "migrate"),
        "email translate": ("email", "translate"),
        "e-mail translate": ("email", "translate"),
        "E-Mails translating": ("email", "translate"),
        "DOCKER DEPLOYMENTS": ("docker", "deploy"),
        "javascript airflwo automation": ("airflow", "automate"),
        "shopfy import": ("shopify", "import"),
        "promethues monitoring": ("prometheus", "monitor"),
        "snowfalke visualize": ("snowflake", "visualize"),
    }
    made += [Question(text, answers(*pair), "spelling") for text, pair in odd.items()]
    return made
