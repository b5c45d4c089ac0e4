"""For all tests: the same property examples in every run, so that a test that passed once does not fail by luck.

To look for new examples: `make test ARGS=--hypothesis-profile=explore`.
"""

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("same")
