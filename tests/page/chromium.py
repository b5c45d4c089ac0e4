"""The Chromium that the page is looked at with: where it is, and how it gets here.

`python -m page.chromium` installs Debian's package where it may, and says what is missing elsewhere.
"""

import os
import shutil
import subprocess
import sys

VARIABLE = "CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium")
MISSING = f"""make: Chromium is missing, in which the page is tested. Install it, or name one:
  sudo {" ".join(INSTALL[:2])} chromium        Debian; elsewhere the package may be called chromium-browser
  make page-test {VARIABLE}=/path/to/chromium"""


def find_chromium() -> str | None:
    """Returns the program that $CHROMIUM names, or the first one that is installed."""
    named = os.environ.get(VARIABLE)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


def main() -> int:
    if find_chromium() is None and os.geteuid() == 0 and shutil.which(INSTALL[0]) is not None:
        print("installing Chromium", file=sys.stderr)
        subprocess.run(["apt-get", "update", "--quiet"], check=False, stdout=subprocess.DEVNULL)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(INSTALL, check=False, stdout=subprocess.DEVNULL, env=environment)
    if find_chromium() is None:
        print(MISSING, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
