"""What a skill is: names, URIs, frontmatter, digests and entries. Pure: bytes and values in, values out."""
