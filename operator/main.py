"""Berth for `kopf run operator/main.py --standalone`; its options come from the environment (BERTH_*)."""

import kopf

from berth.handlers import register
from berth.runtime import Options, Runtime

register(kopf.get_default_registry(), Runtime(Options.from_environment()), owns_runtime=True)
