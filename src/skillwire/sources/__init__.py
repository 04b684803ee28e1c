"""Where skills come from. Every place of origin keeps one protocol, `Source`."""
