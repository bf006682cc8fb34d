"""What builds pages of the site, for its hooks, for scripts and for tests."""
