"""Mistakes that a person can fix, each in one line."""


class PacelineError(RuntimeError):
    """A mistake in the program or in how it was started. Its text is one line."""


def kind_of(value: object) -> str:
    """In a sentence: "list", "the class SGD"."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
