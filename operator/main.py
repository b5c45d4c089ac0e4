"""Berth for `kopf run operator/main.py --standalone`; its options come from the environment (BERTH_*) and a file."""

from dataclasses import replace

import kopf

from berth.collector import Collector
from berth.configuration import read_or_exit
from berth.handlers import register
from berth.runtime import make_runtime

runtime = make_runtime(replace(read_or_exit(), standalone=True), collector=Collector())
register(kopf.get_default_registry(), runtime, owns_runtime=True)
