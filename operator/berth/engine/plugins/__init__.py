"""Plugins, one module each, all of one shape."""
