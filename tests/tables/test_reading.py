"""Files and frames as people have them: encodings, delimiters, decimals, faults, mutations."""

import gzip
import time

import numpy as np
import pandas as pd
import pytest

from tractable.tables import WrongTable, describe_table, read_table

ROWS = "town,price\nKöln,1.5\nUlm,2.25\n"
READ = {"town": ["Köln", "Ulm"], "price": [1.5, 2.25]}


def _read(tmp_path, content, name="table.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


def _plain(frame):
    return {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in frame.columns}


def _codes(frame):
    return [code for code, _, _ in frame.attrs["notes"]]


@pytest.mark.cheap
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
def test_encodings_are_found(tmp_path, encoding):
    frame = _read(tmp_path, ROWS.encode(encoding))
    assert _plain(frame) == READ
    assert ("encoding" in _codes(frame)) == (not encoding.startswith("utf-8"))


def test_a_file_of_two_hands_is_read_line_by_line_and_says_so(tmp_path):
    frame = _read(tmp_path, ROWS.encode() + "Nîmes,3\n".encode("latin-1"))
    assert list(frame["town"]) == ["Köln", "Ulm", "Nîmes"]
    (note,) = frame.attrs["notes"]
    assert note[0] == "encoding"
    assert note[2].startswith("1 lines are not UTF-8")


@pytest.mark.cheap
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_and_ends_of_lines_are_found(tmp_path, delimiter, ending):
    frame = _read(tmp_path, ROWS.replace(",", delimiter).replace("\n", ending))
    assert _plain(frame) == READ


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a;b\n1,5;x\n2,25;y\n", {"a": [1.5, 2.25], "b": ["x", "y"]}),
        ("a;b\n1.234,5;1\n2,0;2\n", {"a": [1234.5, 2.0], "b": [1, 2]}),
        ('a,b\n"$1,234.50",12%\n$2,5%\n', {"a": [1234.5, 2.0], "b": [12.0, 5.0]}),
        ("a,b\n1,-\n2,3\n", {"a": [1, 2], "b": [None, 3.0]}),
        ("zip,b\n01234,1\n99999,2\n", {"zip": ["01234", "99999"], "b": [1, 2]}),
        ("sep=;\na;b\n1;2\n", {"a": [1], "b": [2]}),
        ("# from a machine\n\na,b\n1,2\n", {"a": [1], "b": [2]}),
        ("a b  c\n1 2 3\n4  5 6\n", {"a": [1, 4], "b": [2, 5], "c": [3, 6]}),
        ("a,b\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
        ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
        ("a,b\nr1,1,2\nr2,3,4\n", {"column_1": ["r1", "r2"], "a": [1, 3], "b": [2, 4]}),
        ("1.5,2\n2.5,3\n", {"column_1": [1.5, 2.5], "column_2": [2, 3]}),
        ("2010,2011\n1,2\n", {"2010": [1], "2011": [2]}),
        ("a,a\n1,2\n", {"a": [1], "a.1": [2]}),
        ('a,b\n1,"x\ny, z"\n2,w\n', {"a": [1, 2], "b": ["x\ny, z", "w"]}),
        ("a\n1\n\n3\n", {"a": [1.0, None, 3.0]}),
        ("a,b\n1,2\n3\n", {"a": [1, 3], "b": [2.0, None]}),
        ("when\n13.02.2020\n01.03.2020\n", {"when": ["13.02.2020", "01.03.2020"]}),
    ],
)
def test_dialects(tmp_path, text, wanted):
    assert _plain(_read(tmp_path, text)) == wanted


def test_what_was_done_beyond_plain_reading_is_said(tmp_path):
    frame = _read(tmp_path, "a;a;c\n1,5;$2;x\n2,5;$3\n")
    assert _codes(frame) == ["decimal", "short_rows", "name_again", "disguised"]
    assert set(_codes(frame)) <= {note.code for note in describe_table(frame).notes}


def test_digits_are_the_nearest_numbers(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=2000) * 10.0 ** rng.integers(-30, 30, 2000)
    frame = _read(tmp_path, "x\n" + "\n".join(map(repr, values.tolist())))
    assert (frame["x"].to_numpy() == values).all()


def test_kinds_keep_words(tmp_path):
    text = "code,x\n1,1\n2,2\n"
    assert list(_read(tmp_path, text, kinds={"code": "category"})["code"]) == ["1", "2"]
    assert list(_read(tmp_path, text)["code"]) == [1, 2]


def test_gzip_and_parquet_by_their_bytes(tmp_path):
    assert _plain(_read(tmp_path, gzip.compress(ROWS.encode()), "table")) == READ
    pd.DataFrame(READ).to_parquet(tmp_path / "other.csv")
    assert _plain(read_table(tmp_path / "other.csv")) == READ


class _Protocol:
    """A frame of another library, known by the dataframe protocol alone."""

    def __init__(self, frame):
        self.frame = frame

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True):
        return self.frame.__dataframe__(allow_copy=allow_copy)


class _Stream:
    """A frame of another library, known by Arrow's stream alone, as those of polars are."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_frames_of_others():
    import pyarrow as pa

    table = pa.table(READ)
    for source in (READ, pd.DataFrame(READ), table, _Stream(table), _Protocol(table)):
        assert _plain(read_table(source)) == READ
    assert list(read_table(np.zeros((2, 3))).columns) == ["x0", "x1", "x2"]
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"], index=[7])
    assert list(read_table(twice).columns) == ["a", "a.1"]
    assert list(read_table(pd.DataFrame([[1, 2]], columns=[0, ("b", "c")])).columns) == ["0", "b c"]
    assert list(twice.columns) == ["a", "a"]  # what was given is as it was


@pytest.mark.cheap
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "there must be a table; got an empty file"),
        (b" \n\n", "got nothing but blanks"),
        (b"a,b\n", "there must be at least one row below the names"),
        (b'a,b\n1,"x\n2,3\n', "quotes must be closed; got one that is open from line 2"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 must have at most 2 cells; got 3"),
        (b"a,b\n1,\x002\n", "got a zero byte in line 2"),
        (b"\x89PNG\r\n\x1a\n", "got a picture"),
        (b"PK\x03\x04", "save the sheet as CSV"),
        (b"PAR1 no more", "there must be a whole Parquet file"),
        (gzip.compress(b"a,b\n1,2\n")[:-9], "there must be a whole gzip file"),
        (b"\xff\xfea", "got damaged UTF-16"),
    ],
)
def test_faults_are_one_sentence(tmp_path, content, message):
    with pytest.raises(WrongTable, match=message) as found:
        _read(tmp_path, content)
    assert "\n" not in str(found.value)


def test_places_that_are_no_files(tmp_path):
    for path in (tmp_path, tmp_path / "nothing.csv"):
        with pytest.raises(WrongTable, match="there must be a file"):
            read_table(path)
    for source in (7, np.zeros((2, 2, 2)), [[1, 2], [3]], pd.DataFrame()):
        with pytest.raises(WrongTable, match="must be"):
            read_table(source)


def test_a_huge_file_is_refused_by_its_size_alone(tmp_path):
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(2 << 30)  # takes no room on disk
    started = time.perf_counter()
    with pytest.raises(WrongTable, match=r"at most 512 MB; got 2.0 GB"):
        read_table(path)
    assert time.perf_counter() - started < 2
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 200_000))
    with pytest.raises(WrongTable, match=r"got 0\.763 MB"):
        read_table(packed, most_bytes=100_000)


def _mutated(rng, text):
    """A few bytes put in, taken out, doubled or replaced; lines swapped; the end cut."""
    data = bytearray(text)
    signs = [
        b'"',
        b",",
        b";",
        b"\n",
        b"\r",
        b"\x00",
        b"\xff",
        b"'",
        b"1e999",
        b"NaN",
        b"\t",
        b"-",
        b" ",
        b"\xef\xbb\xbf",
    ]
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(0, max(len(data), 1)))
        match rng.integers(0, 5):
            case 0:
                data[place:place] = signs[rng.integers(len(signs))]
            case 1:
                del data[place : place + int(rng.integers(1, 30))]
            case 2:
                data[place:place] = data[place : place + int(rng.integers(1, 60))]
            case 3 if len(data):
                data[min(place, len(data) - 1)] = int(rng.integers(0, 256))
            case _:
                data = data[: max(place, 1)]
    return bytes(data)


MIXED = "id,when,town,size,price,share,note\n" + 3 * (
    '1,2020-01-01,Köln,low,"1,234.5",12%,"a, b"\n'
    "2,2020-01-02,Ulm,high,2.5,5%,c\n"
    '3,,Köln,medium,,7%,"d ""e"" f"\n'
    "4,2020-02-01,,low,-3,8%,\n"
)


def _fault_of(tmp_path, content):
    """What goes wrong beside a sentence of our own, when mutated text is read, described and encoded."""
    from tractable.tables import TableEncoder

    path = tmp_path / "mutated.csv"
    path.write_bytes(content)
    try:
        frame = read_table(path)
        target = str(frame.columns[-1])
        found = describe_table(frame, target=target)
        encoder = TableEncoder(found).fit(frame, frame[target])
        assert np.isfinite(encoder.transform(frame)).all()
        assert encoder.unlike(frame).shape == (len(frame),)
    except WrongTable as error:
        return str(error) if "\n" in str(error) else None
    except Exception as error:
        return f"{type(error).__name__}: {error} for {content!r}"
    return None


@pytest.mark.parametrize("number", [60, pytest.param(500, marks=pytest.mark.thorough)])
def test_mutated_text_ends_in_a_frame_or_in_a_sentence(tmp_path, number):
    rng = np.random.default_rng(number)
    texts = [MIXED.encode(), MIXED.replace(",", ";").encode("latin-1"), MIXED.encode("utf-16")]
    faults = [_fault_of(tmp_path, _mutated(rng, texts[i % 3])) for i in range(number)]
    assert [fault for fault in faults if fault] == []
