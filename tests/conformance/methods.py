"""The methods that servers of these tests are changed in, and a description that breaks no rule."""

from __future__ import annotations

GET, LIST, READ, DIRECTORY = "skills/get", "skills/list", "resources/read", "resources/directory/read"
GOOD = "Do what the name says, step by step. Use when somebody asks for it."
