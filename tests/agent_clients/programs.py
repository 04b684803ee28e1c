"""The agent clients that the tests run: the program, the clean home and the model service of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = Path(os.environ.get("AGENT_PACKAGES") or ROOT / ".envs/agents/node_modules")
SECONDS = 300
"""After which a run of a client counts as failed. Its own time-outs are what it brings along."""
MODEL = "scripted"


@dataclass(frozen=True)
class AgentProgram:
    """A client. `command` gives the words that send it one prompt, `set_up` writes its configuration."""

    name: str
    """Its name in the table of clients."""
    package: str
    command: Callable[[str], list[str]]
    environment: Callable[[Path, str, str], Mapping[str, str]]
    set_up: Callable[[Path, str, str], None]
    own_load: Callable[[Path, str], tuple[str, dict[str, Any]]]
    """The call by which its model loads a skill of a folder."""
    replaces: str = ""
    """The file of the home that has the URL of the model service in it, if there is one."""
    patience: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables with which it waits for the gateway as long as that takes. Without them it gives up early;
    a client that needs none always waits."""

    @property
    def version(self) -> str:
        """The version that is installed."""
        return json.loads((PACKAGES / self.package / "package.json").read_text())["version"]

    def set_model(self, home: Path, url: str) -> None:
        """Point the configuration that there is now at another URL."""
        if self.replaces:
            path = home / self.replaces
            path.write_text(re.sub(r"http://127\.0\.0\.1:\d+/v1", f"{url}/v1", path.read_text()))

    def run(
        self, home: Path, url: str, key: str, prompt: str, variables: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Send a prompt from a clean environment with these variables, in the folder `work` of the home."""
        work = home / "work"
        work.mkdir(parents=True, exist_ok=True)
        return subprocess.run(
            self.command(prompt),
            cwd=work,
            env={**base_environment(home), **self.environment(home, url, key), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def base_environment(home: Path) -> dict[str, str]:
    """The variables of a user with nothing but a home."""
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(ROOT / ".venv/bin"), "/usr/local/bin", "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "NO_COLOR": "1",
        "DO_NOT_TRACK": "1",
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _claude(prompt: str) -> list[str]:
    program = str(PACKAGES / "@anthropic-ai/claude-code-linux-x64/claude")
    tools = "mcp__skillwire,Skill,ToolSearch,Read"
    return [program, "-p", prompt, "--model", "claude-sonnet-4-5", "--allowedTools", tools]


def _claude_environment(home: Path, url: str, key: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _claude_home(home: Path, url: str, key: str) -> None:
    _write(home / ".claude.json", json.dumps({"hasCompletedOnboarding": True}))


def _codex(prompt: str) -> list[str]:
    program = str(next((PACKAGES / "@openai/codex/vendor").glob("*linux*/**/codex")))
    return [program, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt]


def _codex_home(home: Path, url: str, key: str) -> None:
    _write(
        home / ".codex/config.toml",
        f"""model = "{MODEL}"
model_provider = "{MODEL}"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.{MODEL}]
name = "{MODEL}"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
""",
    )


def _gemini(prompt: str) -> list[str]:
    bundle = PACKAGES / "@google/gemini-cli"
    entry = json.loads((bundle / "package.json").read_text())["bin"]["gemini"]
    return [str(ROOT / ".venv/bin/node"), str(bundle / entry), "-m", "gemini-2.5-pro", "-y", "-p", prompt]


def _gemini_environment(home: Path, url: str, key: str) -> dict[str, str]:
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": key,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _gemini_home(home: Path, url: str, key: str) -> None:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "skills": {"enabled": True},
    }
    _write(home / ".gemini/settings.json", json.dumps(settings))


def _opencode(prompt: str) -> list[str]:
    program = str(PACKAGES / "opencode-linux-x64-baseline/bin/opencode")
    return [program, "run", "--model", f"{MODEL}/{MODEL}", prompt]


def _opencode_environment(home: Path, url: str, key: str) -> dict[str, str]:
    return {
        # It downloads ripgrep, which loads its skills, unless there is one.
        "PATH": os.pathsep.join([str(_ripgrep().parent), base_environment(home)["PATH"]]),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def _ripgrep() -> Path:
    """The ripgrep that Codex brings along."""
    return next((PACKAGES / "@openai/codex/vendor").glob("**/codex-path/rg"))


def _opencode_home(home: Path, url: str, key: str) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": MODEL,
        "options": {"baseURL": f"{url}/v1", "apiKey": key},
        "models": {MODEL: {"name": MODEL, "tool_call": True, "limit": {"context": 100000, "output": 8000}}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "provider": {MODEL: provider},
        "model": f"{MODEL}/{MODEL}",
        "small_model": f"{MODEL}/{MODEL}",
        "permission": "allow",
    }
    _write(home / ".config/opencode/opencode.json", json.dumps(config))


PROGRAMS = {
    program.name: program
    for program in (
        AgentProgram(
            "claude-code",
            "@anthropic-ai/claude-code-linux-x64",
            _claude,
            _claude_environment,
            _claude_home,
            lambda home, name: ("Skill", {"skill": name}),
            patience={"MCP_CONNECT_TIMEOUT_MS": "60000"},
        ),
        AgentProgram(
            "codex",
            "@openai/codex",
            _codex,
            lambda home, url, key: {"SCRIPTED_KEY": key, "CODEX_HOME": str(home / ".codex")},
            _codex_home,
            lambda home, name: ("exec_command", {"cmd": f"cat {home}/.agents/skills/{name}/SKILL.md"}),
            ".codex/config.toml",
        ),
        AgentProgram(
            "gemini-cli",
            "@google/gemini-cli",
            _gemini,
            _gemini_environment,
            _gemini_home,
            lambda home, name: ("activate_skill", {"name": name}),
        ),
        AgentProgram(
            "opencode",
            "opencode-linux-x64-baseline",
            _opencode,
            _opencode_environment,
            _opencode_home,
            lambda home, name: ("skill", {"name": name}),
            ".config/opencode/opencode.json",
        ),
    )
}
"""The clients by name."""
