"""Selectors of devices: CEL expressions, as Kubernetes 1.36 evaluates them for a device.

The language is implemented here. The library behind the expressions of policies has no types like quantities and
versions, no maps that are empty where a domain is missing, and no bound on what an evaluation costs.

selector.py      a compiled selector, and what it says of a device
lexer.py, parser.py, syntax.py   text to tokens to a tree
compiling.py, access.py, loops.py, scope.py   a tree to a function, checked as far as types are known
overloads.py     functions by name and types
standard.py, strings.py, collections.py, kubernetes.py   the functions
patterns.py, regular.py   regular expressions in linear time
values.py        values that Python has no type for, equality and order
"""

from .selector import DeviceSelector, compile_selector
from .syntax import CompileError
from .values import EvaluationError

__all__ = ["CompileError", "DeviceSelector", "EvaluationError", "compile_selector"]
