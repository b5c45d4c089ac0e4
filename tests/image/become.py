"""Run as a script: becomes the given program as another user, and dies with its parent all the same.

    python become.py USER_ID GROUP_ID PROGRAM [ARGUMENT ...]

The kernel forgets the wish to die with the parent (control_plane/leash.py) when the user changes: it is made again.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def main(user: int, group: int, command: list[str]) -> None:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    kernel = ctypes.CDLL(None)
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
