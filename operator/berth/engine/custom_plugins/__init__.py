"""Plugins of other packages: they may have bugs, which must not affect other plugins or policies.

entry_points         finds and imports them
sandbox              calls them, and turns exceptions into an error of the scheduling attempt
plugin_validation    checks what they return
"""
