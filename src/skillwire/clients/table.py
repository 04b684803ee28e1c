"""The table of clients, one row each.

The ids and the folders of skills are those that the npm package `skills` documents, so that both tools mean
the same by one id. The variables are those that a client gives to the commands that its model runs; one that
it also sets in terminals of people is not among them.
"""

from __future__ import annotations

from typing import Final

from skillwire.clients.client import (
    Client,
    ClientConfig,
    ConfigFile,
    claude_code,
    claude_desktop,
    claude_mcp_add,
    codex,
    goose,
    json_entry,
    opencode,
)


def _client(id_: str, name: str, project: str = "", home: str = "", signs: str = "") -> Client:
    """A row. Without signs, the client is where the folder above its folder of skills is."""
    own = (home.removesuffix("/skills"),) if home and home != "~/.agents/skills" else ()
    return Client(
        id=id_,
        name=name,
        project=project,
        home=home,
        signs=tuple(signs.split()) or own,
        inside=_INSIDE.get(id_, ()),
        built_in=tuple(_BUILT_IN.get(id_, "").split()),
        config=_CONFIGS.get(id_),
    )


def _files(dialect: str, *paths: str) -> tuple[ConfigFile, ...]:
    return tuple(ConfigFile(path, dialect) for path in paths)


# By the id of a client. `Client` says what they mean.
_CONFIGS: Final = {
    "claude-code": ClientConfig(
        files=(
            ConfigFile("${CLAUDE_CONFIG_DIR:-~}/.claude.json", "claude-user"),
            ConfigFile("${CLAUDE_CONFIG_DIR:-~/.claude}/settings.json", "claude-settings"),
            ConfigFile(".mcp.json", "claude-project"),
            *_files("claude-settings", ".claude/settings.json", ".claude/settings.local.json"),
        ),
        entry=claude_code,
        command=claude_mcp_add,
        place="Run this command, with --scope user for all your projects.",
        next_step="New sessions of Claude Code use it.",
    ),
    "claude-desktop": ClientConfig(
        files=_files("plain", "<applications>/Claude/claude_desktop_config.json"),
        entry=claude_desktop,
        place="Merge this into claude_desktop_config.json (Settings > Developer > Edit Config) and restart.",
        next_step="Restart Claude Desktop to use it.",
    ),
    "cursor": ClientConfig(
        files=_files("editor", "~/.cursor/mcp.json", ".cursor/mcp.json"),
        entry=json_entry(variable="${env:%s}"),
        place="Merge this into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.",
        next_step="Enable it in Cursor's settings, under MCP, if it asks.",
    ),
    "vscode": ClientConfig(
        files=(
            *_files(
                "vscode",
                "<applications>/Code/User/mcp.json",
                "<applications>/Code - Insiders/User/mcp.json",
            ),
            *_files(
                "vscode-settings",
                "<applications>/Code/User/settings.json",
                "<applications>/Code - Insiders/User/settings.json",
            ),
            ConfigFile(".vscode/mcp.json", "vscode"),
        ),
        key="servers",
        entry=json_entry(variable="${env:%s}", local={"type": "stdio"}, remote={"type": "http"}),
        place="Merge this into .vscode/mcp.json of a project.",
        next_step="VS Code asks whether you trust it when it starts it.",
    ),
    "cline": ClientConfig(
        files=_files(
            "editor",
            "~/.cline/data/settings/cline_mcp_settings.json",
            "<applications>/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        entry=json_entry(local={"type": "stdio"}, remote={"type": "streamableHttp"}),
        place="Merge this into ~/.cline/data/settings/cline_mcp_settings.json "
        "(VS Code: Configure MCP Servers).",
        next_step="Cline starts it when it is opened; switch it on under MCP Servers if it asks.",
    ),
    "junie": ClientConfig(
        files=_files("editor", "~/.junie/mcp/mcp.json", ".junie/mcp/mcp.json"),
        entry=json_entry(),
        place="Merge this into ~/.junie/mcp/mcp.json, or .junie/mcp/mcp.json of a project.",
        next_step="New sessions of Junie use it.",
    ),
    "codex": ClientConfig(
        files=_files("codex", "${CODEX_HOME:-~/.codex}/config.toml", ".codex/config.toml"),
        key="mcp_servers",
        entry=codex,
        place="Add this to ~/.codex/config.toml.",
        next_step="New sessions of Codex use it.",
    ),
    "gemini-cli": ClientConfig(
        files=_files("gemini", "~/.gemini/settings.json", ".gemini/settings.json"),
        entry=json_entry("httpUrl"),
        place="Merge this into ~/.gemini/settings.json.",
        next_step="New sessions of Gemini CLI use it.",
    ),
    "qwen-code": ClientConfig(
        files=_files("gemini", "~/.qwen/settings.json", ".qwen/settings.json"),
        entry=json_entry("httpUrl"),
        place="Merge this into ~/.qwen/settings.json.",
        next_step="New sessions of Qwen Code use it.",
    ),
    "goose": ClientConfig(
        files=(
            ConfigFile(
                "<config>/goose/config.yaml", "goose", "<applications>/Block/goose/config/config.yaml"
            ),
        ),
        key="extensions",
        entry=goose,
        place="Merge this into ~/.config/goose/config.yaml.",
        next_step="New sessions of Goose use it.",
    ),
    "zed": ClientConfig(
        files=(
            ConfigFile("<config>/zed/settings.json", "zed", "<applications>/Zed/settings.json"),
            ConfigFile(".zed/settings.json", "zed"),
        ),
        key="context_servers",
        entry=json_entry(local={"source": "custom"}),
        place="Merge this into Zed's settings.json.",
        next_step="Zed starts it when a conversation begins.",
    ),
    "windsurf": ClientConfig(
        files=_files(
            "editor",
            "~/.codeium/windsurf/mcp_config.json",
            "~/.codeium/windsurf-next/mcp_config.json",
        ),
        entry=json_entry("serverUrl"),
        place="Merge this into ~/.codeium/windsurf/mcp_config.json.",
        next_step="Refresh the MCP servers in Windsurf's settings.",
    ),
    "github-copilot": ClientConfig(
        files=(
            ConfigFile("${COPILOT_HOME:-~/.copilot}/mcp-config.json", "copilot"),
            *_files(
                "copilot-settings",
                "${COPILOT_HOME:-~/.copilot}/config.json",
                "${COPILOT_HOME:-~/.copilot}/settings.json",
            ),
            ConfigFile(".github/mcp.json", "copilot"),
        ),
        entry=json_entry(local={"type": "local", "tools": ["*"]}, remote={"type": "http", "tools": ["*"]}),
        place="Merge this into ~/.copilot/mcp-config.json.",
        next_step="New sessions of Copilot CLI use it.",
    ),
    "opencode": ClientConfig(
        files=_files(
            "opencode",
            "<config>/opencode/opencode.json",
            "<config>/opencode/opencode.jsonc",
            "<config>/opencode/config.json",
            "${OPENCODE_CONFIG}",
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ),
        key="mcp",
        entry=opencode,
        place="Merge this into ~/.config/opencode/opencode.json, or opencode.json of a project.",
        next_step="New sessions of OpenCode use it.",
    ),
    "wayland": ClientConfig(
        files=_files(
            "wayland",
            "${WAYLAND_HOME}/config.toml",
            "${XDG_DATA_HOME}/wayland-core/config.toml",
            "<applications>/wayland-core/config.toml",
            ".wayland-core.toml",
            ".wayland-core/config.toml",
        )
    ),
}

_INSIDE: Final = {
    "amp": ("AMP_CURRENT_THREAD_ID",),
    "antigravity": ("ANTIGRAVITY_AGENT",),
    "augment": ("AUGMENT_AGENT",),
    "claude-code": ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_IS_COWORK"),
    "cline": ("CLINE_ACTIVE",),
    "codex": ("CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI"),
    "crush": ("CRUSH",),
    "cursor": ("CURSOR_AGENT", "CURSOR_EXTENSION_HOST_ROLE=agent-exec"),
    "gemini-cli": ("GEMINI_CLI",),
    "github-copilot": ("COPILOT_CLI", "COPILOT_AGENT", "COPILOT_AGENT_SESSION_ID", "COPILOT_AGENT_JOB_ID"),
    "goose": ("GOOSE_TERMINAL",),
    "grok": ("GROK_AGENT=1", "GROK_SESSION_ID"),
    "hermes-agent": ("HERMES_SESSION_ID",),
    "iflow-cli": ("IFLOW_CLI",),
    "junie": ("JUNIE_DATA",),
    "kilo": ("KILO_PID", "KILOCODE_FEATURE=cli"),
    "kiro-cli": ("AWS_EXECUTION_ENV=*AmazonQ-For-CLI*",),
    "openclaw": ("OPENCLAW_SHELL",),
    "opencode": ("OPENCODE", "OPENCODE_SESSION_ID"),
    "pi": ("PI_CODING_AGENT",),
    "qwen-code": ("QWEN_CODE",),
    "replit": ("REPLIT_MODE=assistant",),
    "roo": ("ROO_ACTIVE", "ROO_CLI_RUNTIME"),
    "trae": ("TRAE_AI_SHELL_ID",),
    "vscode": ("TERM_PROGRAM=vscode GIT_PAGER=cat",),
    "windsurf": ("WINDSURF_CASCADE_TERMINAL",),
    "zed": ("TERM_PROGRAM=zed PAGER=cat",),
}
_BUILT_IN: Final = {
    "claude-code": "batch claude-api claude-in-chrome code-review debug keybindings-help run schedule "
    "update-config",
    "codex": "imagegen openai-docs skill-creator skill-installer",
    "gemini-cli": "antigravity-support skill-creator",
    "opencode": "customize-opencode",
    "qwen-code": "batch loop qc-helper review",
}

TABLE: Final = (
    _client("adal", "AdaL", ".adal/skills", "~/.adal/skills"),
    _client("aider-desk", "AiderDesk", ".aider-desk/skills", "~/.aider-desk/skills"),
    _client("amp", "Amp", ".agents/skills", "<config>/agents/skills", "<config>/amp"),
    _client("antigravity", "Antigravity", ".agents/skills", "~/.gemini/antigravity/skills"),
    _client("antigravity-cli", "Antigravity CLI", ".agents/skills", "~/.gemini/antigravity-cli/skills"),
    _client("astrbot", "AstrBot", "data/skills", "~/.astrbot/data/skills", "./data/skills ~/.astrbot"),
    _client("augment", "Augment", ".augment/skills", "~/.augment/skills"),
    _client("autohand-code", "Autohand Code CLI", ".autohand/skills", "${AUTOHAND_HOME:-~/.autohand}/skills"),
    _client("bob", "IBM Bob", ".bob/skills", "~/.bob/skills"),
    _client("claude-code", "Claude Code", ".claude/skills", "${CLAUDE_CONFIG_DIR:-~/.claude}/skills"),
    _client("claude-desktop", "Claude Desktop"),
    _client("cline", "Cline", ".agents/skills", "~/.agents/skills", "~/.cline"),
    _client("codearts-agent", "CodeArts Agent", ".codeartsdoer/skills", "~/.codeartsdoer/skills"),
    _client("codebuddy", "CodeBuddy", ".codebuddy/skills", "~/.codebuddy/skills"),
    _client("codemaker", "Codemaker", ".codemaker/skills", "~/.codemaker/skills"),
    _client("codestudio", "Code Studio", ".codestudio/skills", "~/.codestudio/skills"),
    _client("codex", "Codex", ".agents/skills", "~/.agents/skills", "${CODEX_HOME:-~/.codex} /etc/codex"),
    _client("command-code", "Command Code", ".commandcode/skills", "~/.commandcode/skills"),
    _client("continue", "Continue", ".continue/skills", "~/.continue/skills"),
    _client("cortex", "Cortex Code", ".cortex/skills", "~/.snowflake/cortex/skills"),
    _client("crush", "Crush", ".crush/skills", "~/.config/crush/skills"),
    _client("cursor", "Cursor", ".agents/skills", "~/.cursor/skills"),
    _client("deepagents", "Deep Agents", ".agents/skills", "~/.deepagents/agent/skills", "~/.deepagents"),
    _client("devin", "Devin for Terminal", ".devin/skills", "<config>/devin/skills"),
    _client("dexto", "Dexto", ".agents/skills", "~/.agents/skills", "~/.dexto"),
    _client("droid", "Droid", ".agents/skills", "~/.factory/skills"),
    _client("eve", "Eve", "agent/skills", "", "./agent/skills"),
    _client("firebender", "Firebender", ".agents/skills", "~/.firebender/skills"),
    _client("forgecode", "ForgeCode", ".forge/skills", "~/.forge/skills"),
    _client("fx", "fx", ".agents/skills", "~/.agents/skills", "~/.fx"),
    _client("gemini-cli", "Gemini CLI", ".agents/skills", "~/.gemini/skills"),
    _client("github-copilot", "GitHub Copilot", ".agents/skills", "~/.copilot/skills"),
    _client("goose", "Goose", ".goose/skills", "<config>/goose/skills"),
    _client("grok", "Grok Build", ".grok/skills", "${GROK_HOME:-~/.grok}/skills"),
    _client("hermes-agent", "Hermes Agent", ".hermes/skills", "${HERMES_HOME:-~/.hermes}/skills"),
    _client("iflow-cli", "iFlow CLI", ".iflow/skills", "~/.iflow/skills"),
    _client("inference-sh", "inference.sh", ".inferencesh/skills", "~/.inferencesh/skills"),
    _client("jazz", "Jazz", ".jazz/skills", "~/.jazz/skills"),
    _client("junie", "Junie", ".junie/skills", "~/.junie/skills"),
    _client("kilo", "Kilo Code", ".agents/skills", "~/.kilo/skills", "~/.kilo ~/.kilocode"),
    _client("kimchi", "Kimchi", ".kimchi/skills", "~/.config/kimchi/harness/skills", "~/.config/kimchi"),
    _client("kimi-code-cli", "Kimi Code CLI", ".agents/skills", "~/.agents/skills", "~/.kimi-code ~/.kimi"),
    _client("kiro-cli", "Kiro CLI", ".kiro/skills", "~/.kiro/skills"),
    _client("kode", "Kode", ".kode/skills", "~/.kode/skills"),
    _client("lingma", "Lingma", ".lingma/skills", "~/.lingma/skills"),
    _client("loaf", "Loaf", ".agents/skills", "~/.agents/skills", "~/.loaf"),
    _client("mcpjam", "MCPJam", ".mcpjam/skills", "~/.mcpjam/skills"),
    _client("minimax-code", "MiniMax Code", ".minimax/skills", "~/.minimax/skills"),
    _client("mistral-vibe", "Mistral Vibe", ".vibe/skills", "${VIBE_HOME:-~/.vibe}/skills"),
    _client("moxby", "Moxby", ".moxby/skills", "~/.moxby/skills"),
    _client("mux", "Mux", ".mux/skills", "~/.mux/skills"),
    _client("neovate", "Neovate", ".neovate/skills", "~/.neovate/skills"),
    _client("ona", "Ona", ".ona/skills", "~/.ona/skills"),
    _client("openclaw", "OpenClaw", "skills", "~/.openclaw/skills", "~/.openclaw ~/.clawdbot ~/.moltbot"),
    _client("opencode", "OpenCode", ".agents/skills", "<config>/opencode/skills"),
    _client("openhands", "OpenHands", ".openhands/skills", "~/.openhands/skills"),
    _client("pi", "Pi", ".agents/skills", "~/.agents/skills", "~/.pi/agent"),
    _client("pochi", "Pochi", ".pochi/skills", "~/.pochi/skills"),
    _client("posit-assistant", "Posit Assistant", ".posit/assistant/skills", "~/.posit/assistant/skills"),
    _client("promptscript", "PromptScript", ".agents/skills", "", "./.promptscript ./promptscript.yaml"),
    _client("qoder", "Qoder", ".qoder/skills", "~/.qoder/skills"),
    _client("qoder-cn", "Qoder CN", ".qoder/skills", "~/.qoder-cn/skills"),
    _client("qwen-code", "Qwen Code", ".qwen/skills", "~/.qwen/skills"),
    _client("reasonix", "Reasonix", ".reasonix/skills", "~/.reasonix/skills"),
    _client("replit", "Replit", ".agents/skills", "<config>/agents/skills", "./.replit"),
    _client("roo", "Roo Code", ".roo/skills", "~/.roo/skills"),
    _client("rovodev", "Rovo Dev", ".rovodev/skills", "~/.rovodev/skills"),
    _client("sarvam-code", "Sarvam Code", ".agents/skills", "~/.agents/skills", "${SARVAM_HOME:-~/.sarvam}"),
    _client("tabnine-cli", "Tabnine CLI", ".tabnine/agent/skills", "~/.tabnine/agent/skills", "~/.tabnine"),
    _client("terramind", "Terramind", ".terramind/skills", "~/.terramind/skills"),
    _client("tinycloud", "Tinycloud", ".tinycloud/skills", "~/.tinycloud/skills"),
    _client("trae", "Trae", ".trae/skills", "~/.trae/skills"),
    _client("trae-cn", "Trae CN", ".trae/skills", "~/.trae-cn/skills"),
    _client("universal", "Universal", ".agents/skills", "<config>/agents/skills", "-"),
    _client("vscode", "VS Code"),
    _client("warp", "Warp", ".agents/skills", "~/.agents/skills", "~/.warp"),
    _client("wayland", "Wayland"),
    _client("windsurf", "Windsurf", ".windsurf/skills", "~/.codeium/windsurf/skills"),
    _client("zcode", "ZCode", ".zcode/skills", "~/.zcode/skills"),
    _client("zed", "Zed", ".agents/skills", "~/.agents/skills", "<config>/zed"),
    _client("zencoder", "Zencoder", ".zencoder/skills", "~/.zencoder/skills"),
    _client("zenflow", "Zenflow", ".zencoder/skills", "~/.zencoder/skills"),
)
