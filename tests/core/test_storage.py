"""Exact round trips, damage found wherever it is, no code run from files, old files kept if a write fails."""

import contextlib
import enum
import json
import os
import pickle
import signal
import subprocess
import sys
from typing import NamedTuple

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import tractable
from tractable.core import Module, Status, field, positive, real, run_until
from tractable.core.fourier import SeriesError, fourier_series
from tractable.core.storage import StorageError, load, save
from tractable.distributions.continuous import Normal


class Mine(Module):
    scale: jax.Array = field(support=positive)
    names: tuple = field(static=True, default=())


class Colour(enum.Enum):
    red = "r"


class Pair(NamedTuple):
    left: int
    right: int


def assert_same(a, b):
    """Equal in type, structure and every bit."""
    assert type(a) is type(b), (a, b)
    if isinstance(a, jax.Array) and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        assert jr.key_impl(a) == jr.key_impl(b)
        a, b = jr.key_data(a), jr.key_data(b)
    if isinstance(a, np.ndarray | np.generic | jax.Array):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    elif isinstance(a, eqx.Module):
        for name in a.__dataclass_fields__:
            assert_same(getattr(a, name), getattr(b, name))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            assert_same(one, other)
    else:
        assert a == b or (a != a and b != b)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "object.tractable"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        10**40,
        -0.0,
        float("nan"),
        float("inf"),
        0.1 + 0.2,
        3 - 4j,
        'text with "sha256":"' + "0" * 64 + '" and \u00e9\n\x00',
        [],
        (),
        {},
        [1, [2.0, (None, "a")]],
        {"a": 1, 2: "b", (1, "c"): [None], None: True},
        Status.converged,
        np.float64(0.1),
        np.int8(-3),
        np.bool_(True),
        np.str_("text"),
        np.dtype("float32"),
        SeriesError(0.1, 0.2),
    ],
)
def test_round_trip_of_plain_values(path, value):
    save(path, value)
    assert_same(value, load(path))


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64",
     "complex64", "complex128", "bfloat16", "float8_e4m3fn", "int4"],
)  # fmt: skip
def test_round_trip_of_dtypes(path, dtype):
    values = np.array([[0, 1, 3], [2, 1, 0]]).astype(jnp.dtype(dtype))
    value = {
        "numpy": values,
        "jax": jnp.asarray(values),
        "scalar": values[0, 1],
        "empty": values[:0],
        "turned": values.T,
    }
    save(path, value)
    assert_same(value, load(path))


def test_round_trip_of_arrays_in_awkward_layouts(path):
    base = np.arange(24.0).reshape(2, 3, 4)
    value = [
        base[:, ::2, ::-1],
        np.asfortranarray(base),
        np.float64(3).reshape(()),
        base.astype(">f8"),
        np.array(["cat", "ox"]),
    ]
    save(path, value)
    found = load(path)
    for one, other in zip(value, found):
        np.testing.assert_array_equal(one, other)
    assert found[3].dtype == np.float64
    assert found[0].flags.writeable


def test_round_trip_of_keys(path):
    value = {"one": jr.key(3), "many": jr.split(jr.key(1), 3), "other": jr.key(5, impl="rbg")}
    save(path, value)
    found = load(path)
    assert_same(value, found)
    np.testing.assert_array_equal(jr.normal(jr.key(3), (2,)), jr.normal(found["one"], (2,)))


def test_round_trip_of_modules(path):
    value = {
        "normal": Normal(jnp.arange(3.0), 2.0),
        "run": run_until(lambda x: (x / 2, x), jnp.asarray(1.0), max_steps=30, tol=1e-6),
        "series": fourier_series(np.cos, 3),
        "support": tractable.core.bounded(0.0, 1.0),
    }
    save(path, value)
    found = load(path)
    assert_same(value, found)
    assert found["run"].status is Status.converged
    np.testing.assert_array_equal(
        found["normal"].log_prob(jnp.ones(3)), value["normal"].log_prob(jnp.ones(3))
    )
    assert jax.tree.structure(value) == jax.tree.structure(found)


@given(
    arrays(
        st.sampled_from([np.float64, np.float32, np.int64]), st.tuples(st.integers(0, 3), st.integers(0, 4))
    )
)
def test_round_trip_of_any_numbers(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("any") / "x"
    save(path, [value])
    assert_same([value], load(path))


def test_values_are_not_judged_again(path):
    broken = jax.tree.map(lambda leaf: -leaf, Normal(0.0, 2.0))  # a gradient has the structure of its model
    save(path, broken)
    assert_same(broken, load(path))


def test_own_classes_need_to_be_listed(path):
    save(path, [Mine(2.0, ("a", 1)), Colour.red, Pair(1, 2)])
    with pytest.raises(
        StorageError, match=r"asks for 'tests\.core\.test_storage:Mine'.*pass `types=\[\.\.\.\]`"
    ):
        load(path)
    with pytest.raises(StorageError, match="Colour"):
        load(path, types=[Mine])
    mine, colour, pair = load(path, types=[Mine, Colour, Pair])
    assert float(mine.scale) == 2.0
    assert (mine.names, colour, pair) == (("a", 1), Colour.red, Pair(1, 2))


def test_classes_inside_functions_can_be_listed(path):
    class Local(Module):
        x: jax.Array = field(support=real)

    save(path, Local(1.0))
    assert float(load(path, types=[Local]).x) == 1.0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda x: x, r"`obj` must be .* got function"),
        (
            {"a": [np.array([object()])]},
            r"`obj\['a'\]\[0\]` must be an array of numbers or text; got dtype object",
        ),
        ([{1, 2}], r"`obj\[0\]` must be .* got set"),
        ({"a": b"bytes"}, r"`obj\['a'\]` must be .* got bytes"),
        ({frozenset(): 1}, "`a key of obj` must be"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_place(path, value, words):
    with pytest.raises(StorageError, match=words):
        save(path, value)
    assert not path.exists()


# ---------------------------------------------------------------- damage

SAMPLE = {"weights": np.linspace(0, 1, 5), "name": "a model", "normal": Normal(0.5, 2.0)}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "x"
    save(path, SAMPLE)
    return path.read_bytes()


def refused(path, data):
    path.write_bytes(data)
    with pytest.raises(StorageError) as caught:
        load(path)
    return str(caught.value)


def test_a_file_cut_at_any_length_is_refused(path, sample):
    for length in range(len(sample)):
        message = refused(path, sample[:length])
        assert any(words in message for words in ("cut short", "not a file", "damaged"))


@settings(max_examples=300)
@given(data=st.data())
def test_every_flipped_bit_is_found(tmp_path_factory, sample, data):
    position = data.draw(st.integers(0, len(sample) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(sample)
    damaged[position] ^= 1 << bit
    assert refused(tmp_path_factory.getbasetemp() / "flipped", bytes(damaged))


def test_every_byte_of_the_header_counts(path, sample):
    length = int.from_bytes(sample[:8], "little")
    for position in range(8 + length):
        damaged = bytearray(sample)
        damaged[position] ^= 0x20  # turns small letters into capitals and spaces into NUL
        assert refused(path, bytes(damaged))


def test_additions_are_refused(path, sample):
    assert "damaged" in refused(path, sample + b"\0")
    assert "damaged" in refused(path, sample + sample)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a file that `save` wrote"),
        (b"\x80", "not a file that `save` wrote"),
        (pickle.dumps({"a": 1}), "not a file that `save` wrote"),
        (b"PK\x03\x04" + b"\0" * 100, "not a file that `save` wrote"),
        (b'{"json": true}' + b" " * 50, "not a file that `save` wrote"),
        (safetensors.numpy.save({"a": np.zeros(3)}), "its header does not say so"),
        (safetensors.numpy.save({"a": np.zeros(3)}, {"format": "pt"}), "its header does not say so"),
        ((2).to_bytes(8, "little") + b"{]", "its header cannot be read"),
        ((2).to_bytes(8, "little") + b"[]", "not a file that `save` wrote"),
    ],
)
def test_foreign_files_are_refused(path, data, words):
    assert words in refused(path, data)


def forged(manifest, version="1"):
    """A file with a right checksum and any manifest: what an attacker, or another version, could write."""
    import hashlib

    metadata = {"format": "tractable", "format_version": version, "library_version": "9", "sha256": "0" * 64}
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    blank = safetensors.numpy.save({"0": np.zeros(2)}, metadata | {"manifest": text})
    return blank.replace(
        b'"sha256":"' + b"0" * 64, b'"sha256":"' + hashlib.sha256(blank).hexdigest().encode()
    )


def module(name, **fields):
    return {"kind": "module", "class": name, "fields": fields}


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "posix:system",
        "builtins:eval",
        "subprocess:Popen",
        "tractable.core.storage:os.system",
        "tractable.core.storage:Path",
        "tractable.core.storage:StorageError",
        "tractable.core.storage:_Reader",
        "tractable.core.module:eqx.Module",
        "tractable.core.module:Module.__init_subclass__",
        "tractable.__main__:Normal",
        "tractable.no_such_module:Normal",
        "tractable.distributions.continuous:NoSuchClass",
        "tractable.distributions:Normal",
        "tractable..core:x",
        "tractableevil:Normal",
        "tests.core.test_storage:Mine",
        "",
    ],
)
@pytest.mark.parametrize("kind", ["module", "enum", "namedtuple"])
def test_no_other_class_is_made(path, name, kind, monkeypatch):
    monkeypatch.setattr(os, "system", lambda *a: pytest.fail("code from the file was run"))
    node = {"kind": kind, "class": name, "fields": {}, "items": ["echo"], "name": "system"}
    assert "which is not a" in refused(path, forged(node))


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (module("tractable.distributions.continuous:Normal", loc=1.0), "has the fields"),
        (module("tractable.distributions.continuous:Normal", loc=1, scale=1, extra=1), "has the fields"),
        ({"kind": "module", "class": "tractable.core.iterate:Status", "fields": {}}, "is not a Module class"),
        (
            {"kind": "enum", "class": "tractable.core.iterate:Status", "name": "nonsense"},
            "describes no object",
        ),
        ({"kind": "array", "shape": [3], "dtype": "float64", "tensor": "0"}, "describes no object"),
        ({"kind": "array", "shape": [2], "dtype": "float64", "tensor": "7"}, "describes no object"),
        ({"kind": "array", "shape": [2], "dtype": "object", "tensor": "0"}, "describes no object"),
        ({"kind": "key", "implementation": "evil", "data": None}, "random keys of the unknown kind 'evil'"),
        ({"kind": "function", "code": "..."}, "unknown kind 'function'"),
        ({"kind": "dict", "items": [[{"kind": "list", "items": []}, 1]]}, "describes no object"),
        ({"kind": "float", "parts": ["0x1p99999"]}, "describes no object"),
        (
            {"kind": "array", "shape": [1], "dtype": "U1000000000", "text": ["a"]},
            "texts of 1000000000 charac",
        ),
        ({"kind": "array", "shape": [-7], "dtype": "float64", "tensor": "0"}, "the impossible shape (-7,)"),
        ([1, 2], "describes no object"),
        ("{not json", "describes no object"),
        ("[" * 100_000, "describes no object"),
    ],
)
def test_forged_manifests_are_refused(path, manifest, words):
    assert words in refused(path, forged(manifest))


def branches(node):
    """All places of a JSON tree, as (container, key)."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from branches(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.sampled_from(["U9", "jax", "0", "key"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@given(st.data())
def test_any_change_of_a_manifest_loads_or_is_refused(tmp_path_factory, data):
    """Whatever a forger writes into the tree of a real object: an object, or a `StorageError`."""
    obj = {
        "model": Normal(1.0, 2.0),
        "keys": (jr.key(0), 1.5),
        "texts": np.array(["a", "bc"]),
        "n": [1, None],
    }
    path = tmp_path_factory.mktemp("forged") / "x"
    save(path, obj)
    raw = path.read_bytes()
    manifest = json.loads(
        json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]["manifest"]
    )
    container, key = data.draw(st.sampled_from(list(branches(manifest))))
    container[key] = data.draw(JSON)
    path.write_bytes(forged(manifest))
    with contextlib.suppress(StorageError):
        load(path)


def test_another_format_version_says_what_to_do(path):
    message = refused(path, forged(None, version="2"))
    assert "format version 2 (library 9)" in message
    assert "Install the version that wrote it" in message


def test_doubles_are_not_silently_halved(path, monkeypatch):
    save(path, jnp.ones(2))
    with (
        jax.enable_x64(False),
        pytest.raises(StorageError, match="it holds float64 arrays, and JAX is set to 32 bits"),
    ):
        load(path)
    with jax.enable_x64(False):
        assert load_numpy(path) == np.float64


def load_numpy(path):
    save(path, np.ones(2))
    return load(path).dtype


# ---------------------------------------------------------------- writing


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    save(path, "old")
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *a: (_ for _ in ()).throw(OSError("the disk is full")))
            with pytest.raises(OSError, match="disk is full"):
                save(path, "new")
        assert load(path) == "old"
        assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_a_killed_save_leaves_nothing_behind(path):
    save(path, "old")
    code = (
        "import os, sys, signal; from tractable.core.storage import save\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "save(sys.argv[1], 'new')"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert load(path) == "old"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_crash_before_the_rename_leaves_the_old_file(path, monkeypatch):
    save(path, "old")
    read_during = []
    rename = os.replace

    def look_then_rename(source, target):
        read_during.append((load(target), load(source)))
        rename(source, target)

    monkeypatch.setattr(os, "replace", look_then_rename)
    save(path, "new")
    assert read_during == [("old", "new")]
    assert load(path) == "new"


def test_a_missing_file_or_folder_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "none" / "x", 1)


def test_the_verbs_of_the_library(path):
    tractable.save(path, {"a": 1})
    assert tractable.load(str(path)) == {"a": 1}
