"""Layer 11: the command line. Commands import what they need when they run: `tractable --help` is quick."""

from tractable.cli.app import main

__all__ = ["main"]
