"""Everything that an object holds, whatever the names of its attributes are."""

import gc
import logging
from collections.abc import Iterator
from types import CoroutineType, FunctionType, ModuleType

LEFT_OUT = (type, ModuleType, FunctionType, CoroutineType, logging.Logger)


def reachable(root: object, outside: tuple[type, ...] = ()) -> Iterator[object]:
    """Yields `root` and all that can be reached from it, without code and without what is reached through `outside`."""
    leave = (*LEFT_OUT, *outside)
    seen, waiting = {id(root)}, [root]
    while waiting:
        found = waiting.pop()
        yield found
        for other in gc.get_referents(found):
            if id(other) not in seen and not isinstance(other, leave):
                seen.add(id(other))
                waiting.append(other)
