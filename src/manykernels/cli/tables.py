"""Tables from files, CSV in all dialects and Parquet; errors name the column and a remedy."""

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

from manykernels.cli.words import BY_DEFAULT, MissingWords
from manykernels.exceptions import InvalidInputError, optional_module
from manykernels.grams.plan import memory_bytes
from manykernels.inspection.files import render_csv, replacing
from manykernels.kernels.tables.dates import AMBIGUOUS, date_order, parse_dates, settle_order
from manykernels.kernels.tables.kinds import FEW_LEVELS, READ_AS, describe, kind_of
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import listed

PARQUET = (".parquet", ".pq")
DELIMITERS = (",", ";", "\t", "|")
UTF_8, UTF_16 = "utf-8-sig", "utf-16"  # both leave out the mark that a text may begin with
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
PACKED = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")  # how archives and workbooks begin
MOST_UNFOLDING, LEAST_LIMIT = 100, 10**8  # of compressed text: times its size, and bytes that are always taken
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+\s*")
ID_NAMES = re.compile(r"(?:.*[_ ])?(?:id|index|uuid)|unnamed: \d+", re.IGNORECASE)


def read_table(
    path: str | Path,
    encoding: str | None = None,
    words: MissingWords = BY_DEFAULT,
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Return the table in a CSV or Parquet file; the columns of CSV may be split by comma, semicolon, tab or bar.

    Text is UTF-8, or UTF-16 with a byte-order mark, unless an encoding is given. ``note`` receives remarks on the words
    of a CSV read as missing.
    """
    path = _there(path)
    if path.suffix.lower() in PARQUET:
        with _parquet_errors(path):
            _check_size(path)
            frame = pd.read_parquet(path).reset_index(drop=True)  # which may be that of some rows of another table
    else:
        with _csv_errors(path, encoding), warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            form = _csv_form(path, encoding)
            frame = pd.read_csv(path, low_memory=False, **form, **words.options(_names(path, form)))
            verbatim: dict[str, Any] = {**form, "dtype": str, "na_filter": False}
            frame = words.settle(frame, lambda places: pd.read_csv(path, usecols=places, **verbatim), note)
    frame.columns = [str(name) for name in frame.columns]
    _check_different(frame.columns.to_series(), path)
    if frame.empty:
        raise InvalidInputError(f"The table {str(path)!r} has no rows.")
    few_columns = 100
    return frame.copy() if frame.shape[1] > few_columns else frame  # numbers in one block, not one each


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table as Parquet or CSV according to the suffix; the file appears only when complete."""
    path = Path(path)
    with replacing(path) as file:
        if path.suffix.lower() in PARQUET:
            _parquet()
            frame.to_parquet(file, index=False)
        else:
            file.write(render_csv(frame, "\t" if path.suffix.lower() == ".tsv" else ",").encode("utf-8"))


def check_new(path: Path | None, option: str, force: bool, inputs: Sequence[Path | None]) -> None:
    """Raise ``InvalidInputError`` unless a file can be written under a name without the loss of another file.

    ``--force`` replaces an existing file, but none of the ``inputs`` of the command.
    """
    if path is None:
        return
    for read in inputs:
        if read is not None and path.exists() and read.exists() and path.samefile(read):
            raise InvalidInputError(f"{option}: {str(path)!r} is a file that this command reads; choose another name.")
    if path.is_dir():
        raise InvalidInputError(f"{option}: {str(path)!r} is a folder; choose another name.")
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"{option}: there is no folder {str(path.parent)!r}.")
    if path.exists() and not force:
        raise InvalidInputError(f"{option}: {str(path)!r} exists; choose another name, or replace it with --force.")


def check_columns(frame: pd.DataFrame, names: Sequence[str], option: str) -> None:
    """Raise ``InvalidInputError`` with suggestions unless all columns exist."""
    for name in names:
        if name not in frame.columns:
            close = get_close_matches(name, frame.columns, n=3, cutoff=0.5)
            hint = (
                f"did you mean {quote_names(close)}?" if close else f"the table has {quote_names(list(frame.columns))}."
            )
            raise InvalidInputError(f"{option}: there is no column {name!r}; {hint}")


def text_identifiers(frame: pd.DataFrame) -> list[str]:
    """Return the text columns that name rows: most values occur once."""
    others = [name for name, real in zip(frame.columns, real_columns(frame), strict=True) if not real]
    return [str(name) for name in others if _is_text(frame[name]) and _names_rows(frame[name].dropna())]


def _names_rows(present: pd.Series) -> bool:
    """Return whether most values of a column of text occur once."""
    distinct = present.nunique()
    if distinct < 10 or not all(isinstance(value, str) for value in present):
        return False
    names_share = 0.5  # of the rows: more different texts than this name rows
    return distinct == len(present) or (distinct > FEW_LEVELS and distinct > names_share * len(present))


def identifiers(frame: pd.DataFrame) -> list[str]:
    """Return the numeric columns that only number the rows: all different and whole, in order or called so."""
    numeric = {dtype: is_numeric_dtype(dtype) and not is_bool_dtype(dtype) for dtype in set(frame.dtypes)}
    whole = frame.loc[:, [numeric[dtype] for dtype in frame.dtypes]]
    values = whole.to_numpy(dtype=np.float64, na_value=np.nan)
    whole, values = whole.loc[:, kept := (np.floor(values) == values).all(axis=0)], values[:, kept]
    pairs = zip(whole.columns, values.T, strict=True)
    return [str(name) for name, column in pairs if _numbers_rows(str(name), column)]


def _numbers_rows(name: str, values: Array) -> bool:
    """Return whether whole numbers count rows; rows without a target leave gaps in the sequence."""
    if len(values) < 10 or len(np.unique(values)) < len(values):
        return False
    steps = np.diff(values)
    return bool(ID_NAMES.fullmatch(name)) or bool((steps > 0).all() and np.mean(steps == 1) >= 0.9)


def quote_names(names: Sequence[Any], most: int = 8) -> str:
    """Return names in quotes, the first few of many."""
    return listed((repr(str(name)) for name in names[:most]), len(names))


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Translate errors of Arrow on a Parquet file into ``InvalidInputError``."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{str(path)!r} cannot be read as Parquet: {error}") from error


def _parquet() -> Any:
    return optional_module("pyarrow.parquet", "Parquet files need pyarrow.", "parquet", InvalidInputError)


def _check_size(path: Path) -> None:
    """Reject a Parquet file with a table beyond the memory; a kilobyte may stand for any number of equal rows."""
    metadata, budget = _parquet().read_metadata(path), memory_bytes(None)
    size = 8 * metadata.num_rows * metadata.num_columns
    if size > budget:
        raise InvalidInputError(
            f"{str(path)!r} holds {metadata.num_rows} rows of {metadata.num_columns} columns, {size / 1e9:.1f} GB; "
            f"{budget / 1e9:.1f} GB may be used. Take fewer rows or columns."
        )


def read_chunks(
    path: str | Path, n_rows: int, encoding: str | None = None, words: MissingWords = BY_DEFAULT
) -> Iterator[pd.DataFrame]:
    """Yield a table in chunks of a limited number of rows.

    Dtypes come from the whole file for Parquet, and from every chunk of a CSV; columns of levels are text.
    """
    path = _there(path)
    parquet = path.suffix.lower() in PARQUET
    parts = _parquet_parts(path, n_rows) if parquet else _csv_parts(path, n_rows, encoding, words)
    for part in parts:
        part.columns = [str(name) for name in part.columns]
        yield part.reset_index(drop=True)


def _parquet_parts(path: Path, n_rows: int) -> Iterator[pd.DataFrame]:
    with _parquet_errors(path):
        for batch in _parquet().ParquetFile(path).iter_batches(n_rows):
            yield batch.to_pandas()


def _csv_parts(path: Path, n_rows: int, encoding: str | None, words: MissingWords) -> Iterator[pd.DataFrame]:
    with _csv_errors(path, encoding):
        form = _csv_form(path, encoding)
        form |= words.options(_names(path, form))
        with pd.read_csv(path, chunksize=n_rows, low_memory=False, **form) as reader:
            yield from reader


def _names(path: Path, form: Mapping[str, Any]) -> list[str]:
    """Return the column names of a text file."""
    return list(pd.read_csv(path, nrows=0, **form).columns)


def _csv_form(path: Path, encoding: str | None) -> dict[str, Any]:
    """Return the dialect of a text file from the size, the first lines and the column names."""
    _check_unfolding(path)
    known = encoding or _marked_encoding(path)
    try:
        codecs.lookup(known)
    except LookupError as error:
        raise InvalidInputError(f"--encoding: {error}; such as utf-8, utf-16, latin-1 or cp1252.") from error
    delimiter, decimal = _dialect(path, known)
    with _text_of(path, known) as file:
        rows = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
        header = next((row for row in rows if len(row) > 1 or any(map(str.strip, row))), [])
    names = pd.Series([name.strip() for name in header], dtype=object)
    _check_different(names[names != ""], path)
    form: dict[str, Any] = {"sep": delimiter, "decimal": decimal, "encoding": known}
    return {**form, "index_col": False, "skipinitialspace": True}


@contextmanager
def _csv_errors(path: Path, encoding: str | None) -> Iterator[None]:
    """Translate errors in reading a text file into ``InvalidInputError``."""
    try:
        yield
    except pd.errors.EmptyDataError as error:
        raise InvalidInputError(f"The file {str(path)!r} is empty.") from error
    except UnicodeError as error:
        raise InvalidInputError(_no_text(path, encoding, error)) from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read as CSV: {str(error).strip()}") from error


def _no_text(path: Path, encoding: str | None, error: UnicodeError) -> str:
    """Return a message with the position of the first undecodable byte and a remedy."""
    with _bytes_of(path) as file:
        if file.peek(1).startswith(PACKED):
            return f"{str(path)!r} is a workbook or packed, and no CSV. Save its table as CSV in UTF-8, or unpack it."
        if encoding or _marked_encoding(path) == UTF_16:
            return f"{str(path)!r} is no text in {encoding or UTF_16}: {error}. Name another --encoding."
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as found:
                byte = line[found.start : found.start + 1]
                sign = byte.decode("cp1252", "replace")
                return (
                    f"{str(path)!r} is no text in UTF-8: line {number} has the byte 0x{byte.hex().upper()}, {sign!r} "
                    "in Windows' cp1252. Name the encoding that it was written in, such as --encoding cp1252 or "
                    "--encoding latin-1, or save it as UTF-8."
                )
    return f"{str(path)!r} is no text in UTF-8: {error}."


def _marked_encoding(path: Path) -> str:
    """Return UTF-16 for files with a byte-order mark, else UTF-8."""
    with _bytes_of(path) as file:
        return UTF_16 if file.read(2) in UTF_16_MARKS else UTF_8


def _check_unfolding(path: Path) -> None:
    """Reject compressed files that expand far beyond a plausible table."""
    if path.suffix != ".gz":
        return
    most, size = max(LEAST_LIMIT, MOST_UNFOLDING * path.stat().st_size), 0
    with gzip.open(path) as file:
        while chunk := file.read(2**20):
            size += len(chunk)
            if size > most:
                raise InvalidInputError(
                    f"{str(path)!r} unfolds into more than {most / 1e6:.0f} MB, {MOST_UNFOLDING} times its size, as "
                    "tables do not. If it is one all the same, unpack it first."
                )


def _bytes_of(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a CSV file for reading, decompressed if needed."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _text_of(path: Path, encoding: str) -> IO[str]:
    """Open a CSV file as text, decompressed if needed."""
    return io.TextIOWrapper(_bytes_of(path), encoding=encoding, newline="")


def _check_different(names: pd.Series, path: Path) -> None:
    repeated = sorted(names[names.duplicated()].unique())
    if repeated:
        raise InvalidInputError(f"Column names in {str(path)!r} must differ, but {quote_names(repeated)} appear twice.")


def _there(path: str | Path) -> Path:
    if not Path(path).is_file():
        raise InvalidInputError(f"There is no file {str(path)!r}.")
    return Path(path)


def _dialect(path: Path, encoding: str) -> tuple[str, str]:
    """Return the delimiter that splits the first lines evenly into most fields, and the decimal sign."""
    sample_lines, sample_signs = 20, 2**22  # looked at for the delimiter
    with _text_of(path, encoding) as file:
        sample = file.read(sample_signs)
    if "\0" in sample:
        raise InvalidInputError(
            f"{str(path)!r} holds zero bytes, as texts in UTF-16 do whose mark is lost. If it is one, say so: "
            "--encoding utf-16-le."
        )
    lines = [line for line in io.StringIO(sample, newline="") if line.strip()]
    if len(sample) == sample_signs:
        lines = lines[: max(1, len(lines) - 1)]  # the last one is cut
    if not lines:
        raise pd.errors.EmptyDataError
    splits = {delimiter: _split(lines[:sample_lines], delimiter) for delimiter in DELIMITERS}
    delimiter = max(DELIMITERS, key=lambda sign: _evenness(splits[sign]))
    fields = [field for row in splits[delimiter][1:] for field in row]
    commas = any(DECIMAL_COMMA.fullmatch(field) for field in fields)
    points = any(DECIMAL_POINT.fullmatch(field) for field in fields)
    return delimiter, "," if delimiter != "," and commas and not points else "."


def _split(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the fields of lines; whole lines if a field has more than 131,072 characters."""
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return [[line] for line in lines]


def _evenness(rows: list[list[str]]) -> tuple[float, int]:
    """Return the share of rows with as many fields as the header, if split at all, and the length of the header."""
    width = len(rows[0])
    return (sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0), width


# What of a table can be learned from: everything that cannot, in one message with the options that leave it out.


MOST_NAMED = 6


def usable_features(
    frame: pd.DataFrame, missing: str = "error", orders: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the columns with parsed dates, or raise an error that names all unusable columns."""
    if frame.shape[1] == 0:
        raise InvalidInputError("No columns are left for features.")
    # Column by column takes seconds for a hundred thousand numeric columns, about which nothing is to be found out.
    orders = orders or {}
    read = frame.loc[:, ~real_columns(frame)].items()
    others = {name: read_dates(column, orders.get(str(name))) for name, column in read}
    if others:
        frame = frame.assign(**{str(name): column for name, column in others.items()})
    kinds = {str(name): kind_of(column) for name, column in others.items()}
    useless = {name: describe(frame[name]) for name, kind in kinds.items() if kind == "text" or kind not in READ_AS}
    gaps = _gaps_message(frame) if missing == "error" else []
    parts = [*_text_message(useless), *_dates_message(frame), *gaps, *_infinite_message(frame)]
    if parts:
        raise InvalidInputError("\n".join(parts))
    return frame


def check_entries(frame: pd.DataFrame, missing: str) -> None:
    """Reject missing and infinite values where the model needs numbers."""
    parts = [*(_gaps_message(frame) if missing == "error" else []), *_infinite_message(frame)]
    if parts:
        # The way out of a gap is another one than in a fit: the model needs each of its columns.
        problems = " ".join(part.split(". ")[0] + "." for part in parts)
        raise InvalidInputError(
            f"{problems} The model needs all of its columns in every row; fit it with --missing mask."
        )


def real_columns(frame: pd.DataFrame) -> Array:
    """Return the columns of real numbers or booleans; every dtype is tested once."""
    real = {dtype: is_numeric_dtype(dtype) and not is_complex_dtype(dtype) for dtype in set(frame.dtypes)}
    return np.array([real[dtype] for dtype in frame.dtypes], dtype=bool)


def date_orders(frame: pd.DataFrame) -> dict[str, str]:
    """Return, for every text column of dates like 31/12/2024, whether the day or the month is first."""
    orders = {str(name): settle_order(column) for name, column in frame.items() if _is_text(column)}
    return {name: order for name, order in orders.items() if order is not None}


def read_dates(column: pd.Series, order: str | None = None) -> pd.Series:
    """Return a text column of unambiguous dates as dates; return any other column unchanged."""
    if not _is_text(column) or (date_order(column) == AMBIGUOUS and order is None):
        return column
    try:
        dates = parse_dates(column, order)
    except ValueError as error:
        raise InvalidInputError(f"Column {str(column.name)!r} cannot be read as dates, as in fit: {error}.") from error
    return column if dates is None else dates


def _is_text(column: pd.Series) -> bool:
    """Return whether a column may be text rather than a category by type."""
    return not is_numeric_dtype(column.dtype) and not isinstance(column.dtype, pd.CategoricalDtype)


def _dates_message(frame: pd.DataFrame) -> list[str]:
    """Return the message on ambiguous dates, which would carry little information as categories."""
    others = frame.loc[:, ~real_columns(frame)]
    examples = {
        str(name): column.dropna().iloc[0]
        for name, column in others.items()
        if _is_text(column) and date_order(column) == AMBIGUOUS
    }
    if not examples:
        return []
    shown = [f"{name!r} (such as {value!r})" for name, value in list(examples.items())[:MOST_NAMED]]
    return [
        f"{_count(list(examples), 'holds', 'hold')} dates whose day and month may be either way round: "
        f"{listed(shown, len(examples))}. Write them as 2024-12-31 or 31.12.2024, or leave them out: "
        + _drops(list(examples))
    ]


def _text_message(useless: dict[str, str]) -> list[str]:
    if not useless:
        return []
    shown = [f"{name!r} ({held})" for name, held in list(useless.items())[:MOST_NAMED]]
    return [
        f"{_count(list(useless))} text that is no category, or cannot be read: {listed(shown, len(useless))}. Turn "
        f"into numbers or categories what should count, or leave it out: {_drops(list(useless))}"
    ]


def _gaps_message(frame: pd.DataFrame) -> list[str]:
    counts = _positive(frame.isna().sum())
    if not counts:
        return []
    return [
        f"{_count(list(counts), 'has', 'have')} missing values: {_describe(counts, len(frame))}. Choose how to handle "
        f"them: --missing mask or --missing indicator, drop the columns ({_drops(list(counts))}), drop the rows "
        "(--drop-missing), or fill them"
    ]


def _infinite_message(frame: pd.DataFrame) -> list[str]:
    real = frame.loc[:, real_columns(frame)]
    values = real.to_numpy(dtype=np.float64, na_value=np.nan)
    counts = _positive(pd.Series(np.isinf(values).sum(axis=0), index=real.columns))
    if not counts:
        return []
    return [
        f"{_count(list(counts), 'has', 'have')} infinite values: {_describe(counts, len(frame))}. Correct them, or "
        f"leave the columns out: {_drops(list(counts))}"
    ]


def _positive(counts: pd.Series) -> dict[str, int]:
    """Return the nonzero counts by column name."""
    return {str(name): int(count) for name, count in counts[counts > 0].items()}


def _describe(counts: dict[str, int], n_rows: int) -> str:
    shown = [f"{name!r} ({count} of {n_rows} rows)" for name, count in list(counts.items())[:MOST_NAMED]]
    return listed(shown, len(counts))


def _count(names: Sequence[str], singular: str = "is", plural: str = "are") -> str:
    return f"1 column {singular}" if len(names) == 1 else f"{len(names)} columns {plural}"


def _drops(names: Sequence[str]) -> str:
    options = [f"--drop {name!r}" if re.search(r"[^\w.-]", name) else f"--drop {name}" for name in names]
    return " ".join(options[:MOST_NAMED]) + (" ..." if len(options) > MOST_NAMED else "")
