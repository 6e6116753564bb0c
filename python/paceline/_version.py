"""The version of this package, and of the protocol that it speaks (docs/program.md)."""

__version__ = "0.1.0"
PROTOCOL = 1
