"""Saving and loading without pickle: tensors in one safetensors file, their arrangement in its JSON header.

Format.      A safetensors file. Its metadata hold the manifest (a JSON tree of containers, numbers, text and
             objects, whose arrays point to tensors), the versions of format and library, and a SHA-256 digest
             of the whole file, computed with the digest itself set to zeros.
Safety.      `load` runs no code from the file. It makes objects only of module, named-tuple and enum classes
             defined in `tractable`, or listed by the caller in `types`; their fields are set without
             calling their constructors. The digest finds damage, not forgery: it is no signature.
Atomicity.   The file is written beside its target, flushed to disk and renamed: a crash leaves the old file.
Cost.        One pass over the bytes; the arrays are in memory twice while they are written or read.
References.  The safetensors format, https://github.com/huggingface/safetensors.
"""

import dataclasses
import enum
import hashlib
import importlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import safetensors
import safetensors.numpy

from tractable._version import __version__
from tractable.core.atomic import write_atomically
from tractable.core.checks import check, is_key

__all__ = ["StorageError", "load", "save"]

_FORMAT = "tractable"
_FORMAT_VERSION = 1
_NO_DIGEST = "0" * 64
_DTYPES = {
    np.dtype(name).name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
        *(jnp.bfloat16, jnp.int4, jnp.uint4, jnp.float8_e4m3fn, jnp.float8_e5m2),
    )
}
_WIDE = 1 << 12  # characters of an array of text, beyond what its texts need
_KEY_IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


class StorageError(ValueError):
    """A file that is damaged, foreign or not allowed, or an object that cannot be stored."""


def save(path: str | os.PathLike, obj: Any) -> None:
    """Write `obj` to one file, replacing what was there at once or not at all.

    Arrays (NumPy, JAX, typed random keys), numbers, text, `None`, lists, tuples, dictionaries, enum members
    and modules are stored, nested in any way; functions and other objects are refused by name.
    """
    target = _place(path)
    writer = _Writer()
    metadata = {
        "format": _FORMAT,
        "format_version": str(_FORMAT_VERSION),
        "library_version": __version__,
        "sha256": _NO_DIGEST,
        "manifest": json.dumps(writer.encode(obj, "obj"), allow_nan=False),
    }
    data = safetensors.numpy.save(writer.tensors, metadata)
    stop = _header_stop(data)
    header, body = _in_order(data[8:stop]), memoryview(data)[stop:]
    digest = hashlib.sha256(header)
    digest.update(body)
    write_atomically(target, _with_digest(header, _NO_DIGEST, digest.hexdigest()), body)


def _place(path: Any) -> Path:
    """A path at which a file can be written, looked at before anything is made."""
    fix = "The order is `save(path, obj)`."
    check(isinstance(path, str | os.PathLike), "path", "a path", type(path).__name__, fix, TypeError)
    place, fix = Path(path), "Make the folder first."
    there = place.parent.is_dir()
    check(there, "path", "in a folder that is there", repr(str(path)), fix, FileNotFoundError)
    return place


def load(path: str | os.PathLike, types: Iterable[type] = ()) -> Any:
    """Read what `save` wrote; classes from outside `tractable` must be listed in `types`."""
    manifest, tensors = _read(Path(path))
    try:
        return _Reader(tensors, types).decode(json.loads(manifest))
    except StorageError as error:
        raise StorageError(f"`{path}` was not loaded: {error}") from error
    except Exception as error:  # a forged manifest can ask for anything: sizes, types, depths, classes
        raise StorageError(f"`{path}` has a manifest that describes no object: {error!r}.") from error


class _Writer:
    """Turns an object into a JSON tree, and puts its arrays aside as numbered tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def encode(self, x: Any, where: str) -> Any:
        if isinstance(x, eqx.Module):
            names = [f.name for f in dataclasses.fields(x)]
            fields = {name: self.encode(getattr(x, name), f"{where}.{name}") for name in names}
            return {"kind": "module", "class": _path(type(x)), "fields": fields}
        if isinstance(x, enum.Enum):
            return {"kind": "enum", "class": _path(type(x)), "name": x.name}
        if isinstance(x, np.generic | np.ndarray | jax.Array):
            return self.encode_array(x, where)
        if x is None or type(x) in (bool, int, str):
            return x
        if type(x) in (float, complex):
            parts = [x.hex()] if type(x) is float else [x.real.hex(), x.imag.hex()]
            return {"kind": type(x).__name__, "parts": parts}
        if isinstance(x, np.dtype):
            return {"kind": "dtype", "name": x.name}
        if type(x) is dict:
            keys = [self.encode(key, f"a key of {where}") for key in x]
            values = [self.encode(value, f"{where}[{key!r}]") for key, value in x.items()]
            return {"kind": "dict", "items": list(zip(keys, values))}
        if type(x) in (list, tuple) or (isinstance(x, tuple) and hasattr(x, "_fields")):
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(x)]
            kind = type(x).__name__ if type(x) in (list, tuple) else "namedtuple"
            return {"kind": kind, "items": items, "class": _path(type(x))}
        raise StorageError(
            f"`{where}` must be an array, number, text, None, list, tuple, dict, enum member or module; "
            f"got {type(x).__name__}. Functions and other objects are not stored: rebuild them after loading."
        )

    def encode_array(self, x: Any, where: str) -> dict:
        if is_key(x):
            data = self.encode_array(np.asarray(jr.key_data(x)), where)
            return {"kind": "key", "implementation": str(jr.key_impl(x)), "data": data}
        kind = "jax" if isinstance(x, jax.Array) else "scalar" if isinstance(x, np.generic) else "array"
        values = np.asarray(x)
        if values.dtype.kind == "U":
            node = {"dtype": f"U{values.dtype.itemsize // 4}", "text": values.ravel().tolist()}
            return {"kind": kind, "shape": list(values.shape)} | node
        if values.dtype.name not in _DTYPES:
            raise StorageError(f"`{where}` must be an array of numbers or text; got dtype {values.dtype}.")
        flat = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1)
        name = str(len(self.tensors))
        self.tensors[name] = flat if values.dtype.kind in "biuf" else flat.view(np.uint8)
        return {"kind": kind, "shape": list(values.shape), "dtype": values.dtype.name, "tensor": name}


class _Reader:
    """Turns the JSON tree back into the object; knows which classes it may use."""

    def __init__(self, tensors: dict[str, bytearray], types: Iterable[type]):
        self.tensors = tensors
        self.types = {_path(t): t for t in types}

    def decode(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | int | str):
            return node
        kind = node["kind"]
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(self.decode(item) for item in node["items"])
        if kind == "dict":
            return {self.decode(key): self.decode(value) for key, value in node["items"]}
        if kind in ("float", "complex"):
            return (float if kind == "float" else complex)(*map(float.fromhex, node["parts"]))
        if kind in ("array", "scalar", "jax", "key"):
            return self.decode_array(node)
        if kind == "dtype":
            return _DTYPES[node["name"]]
        if kind == "enum":
            return self.find(node["class"], enum.Enum)[node["name"]]
        if kind == "namedtuple":
            return self.find(node["class"], tuple)._make(self.decode(item) for item in node["items"])
        if kind == "module":
            return self.decode_module(node)
        raise StorageError(
            f"its manifest holds the unknown kind {kind!r}; a newer version may have written it."
        )

    def decode_array(self, node: dict) -> Any:
        kind, shape = node["kind"], tuple(node.get("shape", ()))
        if any(type(size) is not int or size < 0 for size in shape):
            raise StorageError(f"it holds an array of the impossible shape {shape}.")
        if kind == "key":
            implementation = node["implementation"]
            if implementation not in _KEY_IMPLEMENTATIONS:
                raise StorageError(f"it holds random keys of the unknown kind {implementation!r}.")
            return jr.wrap_key_data(jnp.asarray(self.decode_array(node["data"])), impl=implementation)
        if "text" in node:
            values = np.array(node["text"], dtype=_text_dtype(node)).reshape(shape)
        else:
            values = np.frombuffer(self.tensors[node["tensor"]], dtype=_DTYPES[node["dtype"]]).reshape(shape)
        if kind == "scalar":
            return values[()]
        if kind == "array":
            return values
        if jax.dtypes.canonicalize_dtype(values.dtype) != values.dtype:
            raise StorageError(
                f"it holds {values.dtype} arrays, and JAX is set to 32 bits; set JAX_ENABLE_X64=1."
            )
        return jnp.asarray(values)

    def decode_module(self, node: dict) -> Any:
        cls = self.find(node["class"], eqx.Module)
        wanted, found = {f.name for f in dataclasses.fields(cls)}, set(node["fields"])
        if wanted != found:
            raise StorageError(
                f"its {cls.__name__} has the fields {sorted(found)}, and this version wants {sorted(wanted)}."
            )
        obj = object.__new__(cls)  # as unflattening does: what was valid when saved is not judged again
        for name, value in node["fields"].items():
            object.__setattr__(obj, name, self.decode(value))
        return obj

    def find(self, path: str, base: type) -> Any:
        """The class at `module:name`, if it may be made here."""
        cls = self.types.get(path)
        if cls is None and re.fullmatch(r"tractable(\.(?!__)[A-Za-z_]\w*)*:[A-Za-z_][\w.]*", path):
            cls = _import_class(path)
        if not (
            isinstance(cls, type) and issubclass(cls, base) and (base is not tuple or hasattr(cls, "_fields"))
        ):
            raise StorageError(
                f"it asks for {path!r}, which is not a {base.__name__} class of tractable. "
                "If it is your own class, pass `types=[...]`; if you do not know it, do not trust the file."
            )
        return cls


def _text_dtype(node: dict) -> str:
    """The width that the array had, unless it is so far beyond its texts that only a forger would ask for
    it."""
    width, longest = int(node["dtype"][1:]), max(map(len, node["text"]), default=0)
    if not 0 <= width <= max(longest, _WIDE):
        raise StorageError(f"it asks for texts of {width} characters, and the longest has {longest}.")
    return f"<U{width}"


def _import_class(path: str) -> Any:
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError:
        return None
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found if isinstance(found, type) and _path(found) == path else None


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _header_stop(data: bytes) -> int:
    """Where the header ends: after eight bytes with its length, and that many."""
    return 8 + int.from_bytes(data[:8], "little")


def _in_order(header: bytes) -> bytes:
    """The length and the header with its keys in order: the library that made it has another one each time,
    and the same object is to be the same bytes."""
    text = json.dumps(json.loads(header), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # where the tensors begin is aligned
    return len(text).to_bytes(8, "little") + text


def _with_digest(header: bytes, old: str, new: str) -> bytes:
    """The header with another digest; inside the manifest quotes are escaped, so the pattern occurs once."""
    return header.replace(f'"sha256":"{old}"'.encode(), f'"sha256":"{new}"'.encode(), 1)


def _read(path: Path) -> tuple[str, dict[str, bytearray]]:
    """The manifest and the tensors of a file whose digest is right."""
    data = path.read_bytes()
    stop = _header_stop(data)
    if len(data) < 8 or data[8:9] not in (b"{", b""):
        raise StorageError(f"`{path}` is not a file that `save` wrote: it has no safetensors header.")
    if stop > len(data):
        raise StorageError(f"`{path}` is cut short: it has {len(data)} bytes, its header alone says {stop}.")
    try:
        metadata = json.loads(data[8:stop]).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError) as error:
        raise StorageError(f"`{path}` is damaged: its header cannot be read.") from error
    _check_metadata(path, metadata)
    found = hashlib.sha256(_with_digest(data[:stop], metadata["sha256"], _NO_DIGEST))
    found.update(memoryview(data)[stop:])
    if found.hexdigest() != metadata["sha256"]:
        raise StorageError(
            f"`{path}` is damaged: its checksum is wrong. It was cut short, edited or corrupted."
        )
    try:
        tensors = {name: tensor["data"] for name, tensor in safetensors.deserialize(data)}
    except safetensors.SafetensorError as error:
        raise StorageError(f"`{path}` is damaged: {error}.") from error
    return metadata["manifest"], tensors


def _check_metadata(path: Path, metadata: Any) -> None:
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        raise StorageError(f"`{path}` is not a file that `save` wrote: its header does not say so.")
    if metadata.get("format_version") != str(_FORMAT_VERSION):
        version, library = metadata.get("format_version"), metadata.get("library_version")
        raise StorageError(
            f"`{path}` has format version {version} (library {library}); this library reads version "
            f"{_FORMAT_VERSION}. Install the version that wrote it."
        )
    if not all(isinstance(metadata.get(name), str) for name in ("manifest", "sha256")):
        raise StorageError(f"`{path}` is damaged: its header lacks the manifest or the checksum.")
