"""Planted bugs: changes of the shipped code that the tests have to notice.

Each mutation (`catalogue`) replaces a few lines of one file and names the tests that should fail with it. It is applied
to a copy of `operator/`, never to the source tree, and pytest runs the named tests against that copy (`running`). A
mutation that survives says that some behaviour is promised and not tested.

    make mutations                          all of them, and those of the simulation (tests/simulation/mutations.py)
    make mutations SAMPLE=12 SEED=7         twelve of them, drawn by the seed; without SEED one is chosen and printed
    make mutations ARGS='--only outbox'     those whose name or file contains a word
"""
