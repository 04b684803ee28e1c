"""The judge: what a skill server keeps of the extension, seen from outside, and what it does not."""
