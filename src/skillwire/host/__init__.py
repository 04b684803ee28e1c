"""Take skills in: connections, discovery, approval, loading, and the tools that a model uses."""
