"""The table of agents: an id, a name, and where each looks for skills, in a project and at home.

Every row is `id | name | project folder | home folder | signs`. `-` means that there is none. The signs are
places that exist where the agent is installed; without any, it is the folder above the home folder. The ids
and folders are those that the npm package `skills` documents, so that both tools mean the same by one id.
"""

from __future__ import annotations

from typing import Final

AGENT_ROWS: Final = """
adal | AdaL | .adal/skills | ~/.adal/skills
aider-desk | AiderDesk | .aider-desk/skills | ~/.aider-desk/skills
amp | Amp | .agents/skills | <config>/agents/skills | <config>/amp
antigravity | Antigravity | .agents/skills | ~/.gemini/antigravity/skills
antigravity-cli | Antigravity CLI | .agents/skills | ~/.gemini/antigravity-cli/skills
astrbot | AstrBot | data/skills | ~/.astrbot/data/skills | ./data/skills ~/.astrbot
augment | Augment | .augment/skills | ~/.augment/skills
autohand-code | Autohand Code CLI | .autohand/skills | ${AUTOHAND_HOME:-~/.autohand}/skills
bob | IBM Bob | .bob/skills | ~/.bob/skills
claude-code | Claude Code | .claude/skills | ${CLAUDE_CONFIG_DIR:-~/.claude}/skills
cline | Cline | .agents/skills | ~/.agents/skills | ~/.cline
codearts-agent | CodeArts Agent | .codeartsdoer/skills | ~/.codeartsdoer/skills
codebuddy | CodeBuddy | .codebuddy/skills | ~/.codebuddy/skills
codemaker | Codemaker | .codemaker/skills | ~/.codemaker/skills
codestudio | Code Studio | .codestudio/skills | ~/.codestudio/skills
codex | Codex | .agents/skills | ~/.agents/skills | ${CODEX_HOME:-~/.codex} /etc/codex
command-code | Command Code | .commandcode/skills | ~/.commandcode/skills
continue | Continue | .continue/skills | ~/.continue/skills
cortex | Cortex Code | .cortex/skills | ~/.snowflake/cortex/skills
crush | Crush | .crush/skills | ~/.config/crush/skills
cursor | Cursor | .agents/skills | ~/.cursor/skills
deepagents | Deep Agents | .agents/skills | ~/.deepagents/agent/skills | ~/.deepagents
devin | Devin for Terminal | .devin/skills | <config>/devin/skills
dexto | Dexto | .agents/skills | ~/.agents/skills | ~/.dexto
droid | Droid | .agents/skills | ~/.factory/skills
eve | Eve | agent/skills | - | ./agent/skills
firebender | Firebender | .agents/skills | ~/.firebender/skills
forgecode | ForgeCode | .forge/skills | ~/.forge/skills
fx | fx | .agents/skills | ~/.agents/skills | ~/.fx
gemini-cli | Gemini CLI | .agents/skills | ~/.gemini/skills
github-copilot | GitHub Copilot | .agents/skills | ~/.copilot/skills
goose | Goose | .goose/skills | <config>/goose/skills
grok | Grok Build | .grok/skills | ${GROK_HOME:-~/.grok}/skills
hermes-agent | Hermes Agent | .hermes/skills | ${HERMES_HOME:-~/.hermes}/skills
iflow-cli | iFlow CLI | .iflow/skills | ~/.iflow/skills
inference-sh | inference.sh | .inferencesh/skills | ~/.inferencesh/skills
jazz | Jazz | .jazz/skills | ~/.jazz/skills
junie | Junie | .junie/skills | ~/.junie/skills
kilo | Kilo Code | .agents/skills | ~/.kilo/skills | ~/.kilo ~/.kilocode
kimchi | Kimchi | .kimchi/skills | ~/.config/kimchi/harness/skills | ~/.config/kimchi
kimi-code-cli | Kimi Code CLI | .agents/skills | ~/.agents/skills | ~/.kimi-code ~/.kimi
kiro-cli | Kiro CLI | .kiro/skills | ~/.kiro/skills
kode | Kode | .kode/skills | ~/.kode/skills
lingma | Lingma | .lingma/skills | ~/.lingma/skills
loaf | Loaf | .agents/skills | ~/.agents/skills | ~/.loaf
mcpjam | MCPJam | .mcpjam/skills | ~/.mcpjam/skills
minimax-code | MiniMax Code | .minimax/skills | ~/.minimax/skills
mistral-vibe | Mistral Vibe | .vibe/skills | ${VIBE_HOME:-~/.vibe}/skills
moxby | Moxby | .moxby/skills | ~/.moxby/skills
mux | Mux | .mux/skills | ~/.mux/skills
neovate | Neovate | .neovate/skills | ~/.neovate/skills
ona | Ona | .ona/skills | ~/.ona/skills
openclaw | OpenClaw | skills | ~/.openclaw/skills | ~/.openclaw ~/.clawdbot ~/.moltbot
opencode | OpenCode | .agents/skills | <config>/opencode/skills
openhands | OpenHands | .openhands/skills | ~/.openhands/skills
pi | Pi | .agents/skills | ~/.agents/skills | ~/.pi/agent
pochi | Pochi | .pochi/skills | ~/.pochi/skills
posit-assistant | Posit Assistant | .posit/assistant/skills | ~/.posit/assistant/skills
promptscript | PromptScript | .agents/skills | - | ./.promptscript ./promptscript.yaml
qoder | Qoder | .qoder/skills | ~/.qoder/skills
qoder-cn | Qoder CN | .qoder/skills | ~/.qoder-cn/skills
qwen-code | Qwen Code | .qwen/skills | ~/.qwen/skills
reasonix | Reasonix | .reasonix/skills | ~/.reasonix/skills
replit | Replit | .agents/skills | <config>/agents/skills | ./.replit
roo | Roo Code | .roo/skills | ~/.roo/skills
rovodev | Rovo Dev | .rovodev/skills | ~/.rovodev/skills
sarvam-code | Sarvam Code | .agents/skills | ~/.agents/skills | ${SARVAM_HOME:-~/.sarvam}
tabnine-cli | Tabnine CLI | .tabnine/agent/skills | ~/.tabnine/agent/skills | ~/.tabnine
terramind | Terramind | .terramind/skills | ~/.terramind/skills
tinycloud | Tinycloud | .tinycloud/skills | ~/.tinycloud/skills
trae | Trae | .trae/skills | ~/.trae/skills
trae-cn | Trae CN | .trae/skills | ~/.trae-cn/skills
universal | Universal | .agents/skills | <config>/agents/skills | -
warp | Warp | .agents/skills | ~/.agents/skills | ~/.warp
windsurf | Windsurf | .windsurf/skills | ~/.codeium/windsurf/skills
zcode | ZCode | .zcode/skills | ~/.zcode/skills
zed | Zed | .agents/skills | ~/.agents/skills | <config>/zed
zencoder | Zencoder | .zencoder/skills | ~/.zencoder/skills
zenflow | Zenflow | .zencoder/skills | ~/.zencoder/skills
"""
