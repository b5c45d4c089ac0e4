"""The embedded cluster: an object store with the API server's rules, and an HTTP API server on it."""
