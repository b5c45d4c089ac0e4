"""`berth demo`: an embedded cluster, and Berth at work on it."""

import argparse

from berth.demo import add_arguments, main


def fill(demo: argparse.ArgumentParser) -> None:
    add_arguments(demo)
    demo.set_defaults(command=main)
