"""Paths are looked at before anything is loaded: a wrong one is one line and exit code 2, at once."""

import os
from pathlib import Path
from typing import NoReturn

import typer

from tractable._hints import nearest
from tractable.graphs.bundled import NETWORKS

__all__ = ["existing", "folder", "network_place", "stop", "writable"]


def existing(command: str, name: str, path: Path) -> Path:
    """`path` if it is a file that can be read."""
    if not path.is_file():
        stop(command, f"`{name}` must be a file that is there; got {str(path)!r}.", 2)
    if not os.access(path, os.R_OK):
        stop(command, f"`{name}` must be a file that may be read; got {str(path)!r}.", 2)
    return path


def network_place(command: str, name: str, path: Path) -> Path:
    """`path` if it is a file that can be read, or the name of a network that comes with the package."""
    if path.exists() or path.suffix or path.parent != Path():
        return existing(command, name, path)
    if str(path) not in NETWORKS:
        must = "a file that is there, or the name of a network"
        stop(command, f"`{name}` must be {must}; got {str(path)!r}. {nearest(str(path), NETWORKS)}", 2)
    return path


def writable(command: str, name: str, path: Path) -> Path:
    """`path` if a file can be written there."""
    if path.is_dir():
        stop(command, f"`{name}` must be a file; got the folder {str(path)!r}.", 2)
    if not path.parent.is_dir():
        stop(command, f"`{name}` must be in a folder that is there; got {str(path)!r}.", 2)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        stop(command, f"`{name}` must be in a place that may be written; got {str(path)!r}.", 2)
    return path


def folder(command: str, name: str, path: Path) -> Path:
    """`path` if it is a folder that may be written, or can be made one."""
    if path.exists() and not path.is_dir():
        stop(command, f"`{name}` must be a folder; got the file {str(path)!r}.", 2)
    writable(command, name, path / "model.tractable" if path.is_dir() else path)
    return path


def stop(command: str, sentence: object, code: int) -> NoReturn:
    """One line on the error stream, and the exit code."""
    typer.echo(f"tractable {command}: {sentence}", err=True)
    raise typer.Exit(code)
