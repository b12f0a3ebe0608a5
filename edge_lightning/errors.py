"""The one exception for what a user can cause and mend."""


class UserError(Exception):
    """Says in one line what came, what was expected and what to change; the command line prints it without a traceback."""


def require_at_least_one(key: str, value: int | None) -> None:
    """Raise UserError for a count below 1; None is no count."""
    if value is not None and value < 1:
        raise UserError(f"{key}={value}: at least 1 expected")
