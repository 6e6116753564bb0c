"""What a person can put right, said in one line."""


class PacelineError(RuntimeError):
    """A mistake in the program or in how it was started. Its text is one line."""
