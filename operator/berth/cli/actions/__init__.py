"""What commands do once they are chosen: a module a command, with `run(options)`, which returns the exit code.

The modules beside this package have the arguments. They import none of these, so that `--help` answers at once.
"""
