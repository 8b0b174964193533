r"""The text of a file: looked at before it is read, unpacked, and decoded by what its bytes say.

Refused.     A folder, a file that is not there, an empty one, one beyond `MOST_BYTES` (by its size on disk,
             or by what a gzip file says of itself), spreadsheets, archives and pictures (by their first
             bytes), and text with zero bytes: each in one sentence, before anything large is loaded.
Encoding.    A byte-order mark decides; without one, zeros in every second place mean UTF-16. Otherwise each
             line is UTF-8 where it can be, and Windows-1252 where it cannot: a file of several hands is
             read line by line, and says so.
Lines.       Ends of lines of all systems become "\n".
Cost.        One pass over the bytes.
"""

import codecs
import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

__all__ = ["MOST_BYTES", "Text", "WrongTable", "file_of", "text_of"]

MOST_BYTES = 1 << 29  # a table of this size takes several times as much memory
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FOREIGN = (
    (b"PK\x03\x04", "a spreadsheet or an archive; save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet of old; save the sheet as CSV"),
    (b"\x89PNG", "a picture"), (b"\xff\xd8\xff", "a picture"), (b"GIF8", "a picture"),
    (b"%PDF", "a PDF"), (b"\x7fELF", "a program"), (b"SQLite format 3", "a database; export the table"),
    (b"\x89HDF", "HDF5; save it as Parquet or CSV"), (b"BZh", "bzip2; unpack it"),
    (b"\xfd7zXZ", "xz; unpack it"), (b"\x28\xb5\x2f\xfd", "zstandard; unpack it"),
)  # fmt: skip
_GZIP = b"\x1f\x8b"


class WrongTable(ValueError):
    """A file, a frame or a request that cannot be used, in one sentence."""


class Text(NamedTuple):
    """The text of a file in UTF-8, the encoding that it had, and how many lines were in another one."""

    content: bytes
    encoding: str
    num_foreign: int


def file_of(path: Path, most_bytes: int = MOST_BYTES) -> tuple[Path, bytes]:
    """A file that can be read, and its first bytes."""
    if path.is_dir():
        raise WrongTable(f"{path}: there must be a file; got a folder.")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(16)
    except OSError as error:
        raise WrongTable(f"{path}: there must be a file that may be read; got {error.strerror}.") from error
    if size == 0:
        raise WrongTable(f"{path}: there must be a table; got an empty file.")
    _check_size(path, size, most_bytes)
    for mark, kind in _FOREIGN:
        if first.startswith(mark):
            raise WrongTable(f"{path}: there must be a table in CSV, TSV or Parquet; got {kind}.")
    return path, first


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> Text:
    """The text of a file, unpacked and decoded."""
    path, first = file_of(path, most_bytes)
    raw = _unpacked(path, most_bytes) if first.startswith(_GZIP) else path.read_bytes()
    return decoded(path, raw)


def decoded(path: Path | str, raw: bytes) -> Text:
    """Bytes as UTF-8, by their mark, their zeros or what they can be."""
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), None) or _wide(raw[:4096])
    foreign = 0
    if encoding in ("utf-16", "utf-32", "utf-16-le", "utf-16-be"):
        try:
            raw = raw.decode(encoding).removeprefix("\ufeff").encode("utf-8")
        except UnicodeError as error:
            raise WrongTable(f"{path}: there must be text; got damaged {encoding.upper()}.") from error
    raw = raw.removeprefix(codecs.BOM_UTF8)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        raw.decode("utf-8")
        encoding = encoding or "utf-8"
    except UnicodeDecodeError:
        raw, foreign, encoding = _by_lines(raw)
    if (place := raw.find(0)) >= 0:
        line = raw.count(b"\n", 0, place) + 1
        raise WrongTable(f"{path}: there must be text; got a zero byte in line {line}.")
    if not raw.strip():
        raise WrongTable(f"{path}: there must be a table; got nothing but blanks.")
    return Text(raw, encoding, foreign)


def _wide(first: bytes) -> str | None:
    """UTF-16 without a mark: text of few letters has a zero in nearly every second byte."""
    if len(first) < 4:
        return None
    even, odd = first[0::2].count(0) / len(first[0::2]), first[1::2].count(0) / len(first[1::2])
    if odd > 0.4 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.1 else None


def _by_lines(raw: bytes) -> tuple[bytes, int, str]:
    """Each line as UTF-8 or as Windows-1252."""
    lines, foreign, beyond = raw.split(b"\n"), 0, 0
    for place, line in enumerate(lines):
        try:
            line.decode("utf-8")
            beyond += not line.isascii()
        except UnicodeDecodeError:
            lines[place] = _western(line).encode("utf-8")
            foreign += 1
    mixed = "utf-8 and windows-1252" if beyond else "windows-1252"
    return b"\n".join(lines), foreign if beyond else 0, mixed


def _western(line: bytes) -> str:
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _unpacked(path: Path, most_bytes: int) -> bytes:
    """A gzip file; one that grows beyond the limit is given up there."""
    with path.open("rb") as file:
        file.seek(-4, 2)
        _check_size(path, int.from_bytes(file.read(4), "little"), most_bytes)
    try:
        with gzip.open(path) as file:
            raw = file.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise WrongTable(f"{path}: there must be a whole gzip file; got {error}.") from error
    _check_size(path, len(raw), most_bytes)
    if not raw:
        raise WrongTable(f"{path}: there must be a table; got an empty file.")
    return raw


def _check_size(path: Path, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        fix = "Draw some of its rows, or leave out columns."
        raise WrongTable(f"{path}: there must be at most {_said(most_bytes)}; got {_said(size)}. {fix}")


def _said(size: int) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.3g} MB"
