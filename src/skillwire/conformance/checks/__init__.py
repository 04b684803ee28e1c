"""The checks: from a survey to faults, by area. Pure; each cites the rule that it holds a server to."""
