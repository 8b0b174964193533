"""Files that are replaced at once or not at all: a process killed while it writes leaves nothing behind."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """Replace the file at `path` at once or not at all: written beside it, flushed to disk and renamed.

    Where the system can, the new file has no name until it is whole: a process that is killed while it writes
    leaves nothing behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write(temporary, parts)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":  # the new name is on disk only when its directory is
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """A new file at `path`, named when it is whole and on disk."""
    nameless = _nameless(path.parent)
    with open(path, "xb") if nameless is None else os.fdopen(nameless, "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
        if nameless is not None:
            # only with a folder does Python follow the link from /proc to the file; the path needs none
            os.link(f"/proc/self/fd/{nameless}", path, src_dir_fd=nameless, follow_symlinks=True)


def _nameless(folder: Path) -> int | None:
    """An open file without a name in `folder`; `None` where there are none."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, flag | os.O_RDWR, 0o666)
    except OSError:  # this file system has none, or the folder is not there: the named way says so
        return None
