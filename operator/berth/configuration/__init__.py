"""Configuration: what can be chosen when Berth is started, and how it is chosen.

    options    the one record that everything else is handed
    values     kinds of values: how one is read from a text or from YAML, and written
    gates      what is optional or experimental, and can be switched
    settings   the table: one row for each field of the options; everything below is made from it
    reading    flag over environment over file over default --> Options
    file       the YAML file: read with every problem named, written with every setting explained
    flags      the command line's arguments
    introduction  what a process says of them first
    serving    where and with what to serve, by the options
    pages      docs/configuration.md (python -m berth.configuration.pages)

A setting is named once, in the table: its flag (`--resync-seconds`), variable (`BERTH_RESYNC_SECONDS`), key of the file
(`resyncSeconds`) and field of `Options` follow from that name.
"""

from berth.configuration.options import Options
from berth.configuration.reading import BadConfiguration, read, read_or_exit
from berth.configuration.settings import SETTINGS, Setting, as_mapping

__all__ = ["SETTINGS", "BadConfiguration", "Options", "Setting", "as_mapping", "read", "read_or_exit"]
