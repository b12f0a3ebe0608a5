"""The one exception for what a user can cause and mend."""


class UserError(Exception):
    """Says in one line what came, what was expected and what to change; the command line prints it without a traceback."""
