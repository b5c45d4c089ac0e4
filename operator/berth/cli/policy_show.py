"""`berth policy show`: the policies of the library that comes with Berth."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from berth.cli.common import OK, complain, describe
from berth.shipped import policy_files

EXAMPLES = """Other commands take these policies by name, too, wherever they take a file that has no such name.

examples:
  %(prog)s                                            which policies there are
  %(prog)s binpack | kubectl apply -f -
  %(prog)s default > mine.yaml                        a policy to edit

"""


def fill(command: argparse.ArgumentParser) -> None:
    text = "List the policies of Berth's library, or print some of them as YAML."
    describe(command, text, EXAMPLES, ok="printed", failed="the library has no such policy")
    command.add_argument("names", metavar="NAME", nargs="*", help="a policy of the library (default: list them)")
    command.set_defaults(command=_show)


def _show(options: argparse.Namespace) -> int:
    library = policy_files()
    unknown = [name for name in options.names if name not in library]
    if unknown:
        return complain(f"berth policy show: the library has no policy {unknown[0]}; it has {', '.join(library)}")
    if options.names:
        print("---\n".join(library[name].read_text(encoding="utf-8") for name in options.names), end="")
    else:
        print(_listed(library), end="")
    return OK


def _listed(library: Mapping[str, Path]) -> str:
    rows = [("NAME", "WHAT IT DOES"), *((name, _first_sentence(file)) for name, file in library.items())]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:{width}}   {text}\n" for name, text in rows)


def _first_sentence(file: Path) -> str:
    """Returns the beginning of the comment at the top of the file."""
    lines = file.read_text(encoding="utf-8").partition("\n#\n")[0].splitlines()
    comment = " ".join(line.removeprefix("# ") for line in lines if line.startswith("# "))
    return re.split(r"[.:;](?: |$)|, so that", comment)[0]
