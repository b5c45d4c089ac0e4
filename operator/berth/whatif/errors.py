"""The one exception of this package."""


class CannotSimulate(Exception):
    """The question cannot be answered; the message names the object and the field, and says what to do."""
