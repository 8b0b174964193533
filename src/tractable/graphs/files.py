r"""Files of graphical models: read by content, written by suffix.

Formats.     BIF (`.bif`), XMLBIF 0.3 (`.xmlbif`, `.bifxml`, `.xml`), UAI (`.uai`: a network or a field), each
             also compressed (`.bif.gz`); of UAI the evidence (`.evid`) and the results (`.MAR`, `.PR`).
Errors.      `FileError`, a `ValueError` that starts with file and line.
Cost.        Linear in the file: about 10 ms for ALARM, a third of a second for a thousand variables.
References.  Cozman (1998); the UAI 2014 inference competition.
"""

import gzip
import os
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tractable.core.atomic import write_atomically
from tractable.core.checks import check
from tractable.graphs import uai
from tractable.graphs.bayes_net import BayesNet
from tractable.graphs.bif import parse_bif, render_bif
from tractable.graphs.drafts import Draft, FileError, RoundedRow, RoundedTables
from tractable.graphs.markov_field import MarkovField
from tractable.graphs.xmlbif import parse_xmlbif, render_xmlbif

__all__ = [
    "FileError", "RoundedRow", "RoundedTables", "read", "read_evidence", "read_marginals", "read_partition",
    "rounded_rows", "write", "write_evidence", "write_marginals", "write_partition",
]  # fmt: skip

PathLike = str | os.PathLike
Model = BayesNet | MarkovField

_SUFFIXES = {".bif": "bif", ".xmlbif": "xmlbif", ".bifxml": "xmlbif", ".xml": "xmlbif", ".uai": "uai"}
_CONTENTS = (
    ("xmlbif", re.compile(rb"\s*<")),
    ("uai", re.compile(rb"\s*(?:BAYES|MARKOV)\b")),
    ("bif", re.compile(rb"\s*(?:network|variable|probability|//|/\*)")),
)
_MOST_BYTES = 2**30  # of a compressed file, once it is not


def read(path: PathLike) -> Model:
    """The network or field in a file, in the format of its content, or where that is silent of its suffix.

    Rows that sum to one up to six printed digits are kept as printed; beyond that, within 1e-4, they are
    renormalised with a `RoundedTables` warning. `rounded_rows` lists both; others are refused.
    """
    found = _parsed(path)
    return found.network() if isinstance(found, Draft) else found


def rounded_rows(path: PathLike) -> tuple[RoundedRow, ...]:
    """The rows that sum to one only up to their printed digits: variable, line and sum of each."""
    found = _parsed(path)
    return found.rounded_rows() if isinstance(found, Draft) else ()


def write(model: Model, path: PathLike) -> None:
    """Write a network as BIF, XMLBIF or UAI, or a field as UAI, by the suffix of `path`.

    The file is replaced at once or not at all. States become text; UAI keeps neither names nor states.
    """
    target, suffix = Path(path), _suffix(path)
    check(suffix in _SUFFIXES, "path", f"a file with a suffix among {', '.join(_SUFFIXES)}", target.name)
    kind = _SUFFIXES[suffix]
    ok = kind == "uai" or isinstance(model, BayesNet)
    fix = "A Markov field is written as `.uai`; only a network has conditional tables."
    check(ok, "model", f"a `BayesNet` for {suffix}", type(model).__name__, fix, TypeError)
    render: Callable[[Any], str] = {"bif": render_bif, "xmlbif": render_xmlbif, "uai": uai.render_uai}[kind]
    _save(target, render(model))


def read_evidence(path: PathLike, model: Model) -> dict[str, Any]:
    """The evidence in an `.evid` file, `{variable: state}`."""
    return uai.parse_evidence(str(path), _text(path), model)


def write_evidence(evidence: Mapping[str, Any], model: Model, path: PathLike) -> None:
    """Write one state for each observed variable."""
    _save(Path(path), uai.render_evidence(evidence, model))


def read_marginals(path: PathLike, model: Model) -> dict[str, dict[Any, float]]:
    """The marginals in a `.MAR` file, `{variable: {state: probability}}`."""
    return uai.parse_marginals(str(path), _text(path), model)


def write_marginals(marginals: Mapping[str, Mapping[Any, float]], model: Model, path: PathLike) -> None:
    """Write the marginals of all variables, as `model.marginals(evidence)` gives them."""
    _save(Path(path), uai.render_marginals(marginals, model))


def read_partition(path: PathLike) -> float:
    r"""The natural logarithm of $Z$ in a `.PR` file (which holds that in base ten)."""
    return uai.parse_partition(str(path), _text(path))


def write_partition(log_value: float, path: PathLike) -> None:
    r"""Write $\log Z$, or the logarithm of the probability of evidence."""
    _save(Path(path), uai.render_partition(log_value))


def _parsed(path: PathLike) -> Draft | MarkovField:
    data = _bytes(path)
    start = data[:4096]
    by_content = next((kind for kind, pattern in _CONTENTS if pattern.match(start)), None)
    kind = by_content or _SUFFIXES.get(_suffix(path))
    if kind is None:
        message = "`file` must be a network in BIF, XMLBIF or UAI; got neither its content nor its suffix."
        raise FileError(str(path), 1, message)
    if kind == "xmlbif":
        return parse_xmlbif(str(path), data)
    parse = parse_bif if kind == "bif" else uai.parse_uai
    return parse(str(path), _decoded(path, data))


def _suffix(path: PathLike) -> str:
    """The suffix in lower case, without that of compression."""
    name = Path(path).name.lower()
    return Path(name.removesuffix(".gz")).suffix


def _bytes(path: PathLike) -> bytes:
    """The bytes of a file, without compression and without a byte-order mark."""
    data = Path(path).read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = _decompressed(path, data)
    return data.removeprefix(b"\xef\xbb\xbf")


def _decompressed(path: PathLike, data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise FileError(str(path), 1, f"`file` must be a complete gzip file; got {error}.") from error
    if not stream.eof:
        got = "its end too early" if not stream.unconsumed_tail else f"more than {_MOST_BYTES} bytes"
        raise FileError(str(path), 1, f"`file` must be a complete gzip file; got {got}.")
    return plain


def _text(path: PathLike) -> str:
    return _decoded(path, _bytes(path))


def _decoded(path: PathLike, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"`file` must be text in UTF-8; got the byte {data[error.start]:#04x}. Convert it to UTF-8."
        raise FileError(str(path), line, message) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _save(path: Path, text: str) -> None:
    data = text.encode("utf-8")
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.lower().endswith(".gz") else data)
