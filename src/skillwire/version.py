"""The version, as a constant: asking the installed package for it takes longer than many an answer."""

VERSION = "0.1.0"
