"""Signing in to remote servers with OAuth."""
