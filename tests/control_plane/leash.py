"""Run as a script: becomes the given program, which the kernel kills should the parent die without a word.

    python leash.py PARENT_PID PROGRAM [ARGUMENT ...]

Where the kernel has no such signal (anything but Linux) it just becomes the program; then only an orderly exit of the
parent stops it. It is a script and no `preexec_fn`, because that is unsafe, and warned of, in a process with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent_pid: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # it died before we asked
            os._exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
