"""Plugins that other packages bring: they may be wrong, and must not stop anything else.

entry_points         finds them
sandbox              calls them, and turns whatever they raise into an error of the attempt
plugin_validation    checks what they return
"""
