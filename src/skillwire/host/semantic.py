"""SkillVectors: skills by the meaning of their descriptions, with a model that an optional package carries.

The package `wordllama` has a vector for each of 32,000 parts of words, trained so that the mean of those of a
text says what it is about. Only its two data files are read. Its code is not imported, because it can
download models: nothing is downloaded here. Vectors are compared as whole numbers, so that the same skills
and the same question always give the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from skillwire.catalog.search import Document
from skillwire.documents import DocumentError, read_json
from skillwire.errors import SourceError
from skillwire.limits import Limits
from skillwire.text import clean_line
from skillwire.version import pip_command

K = TypeVar("K", bound=Hashable)

MOST_SIMILAR: Final = 50
"""The number of skills that have a place in the order by meaning."""
_PACKAGE: Final = "wordllama"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TOKENS: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_NAME: Final = "embedding.weight"
# A component of a vector of length 1 becomes a number of eight bits; those over 0.5 are rare, and are cut.
_SCALE: Final = 254
_MOST_HEADER: Final = 65_536

_logger = logging.getLogger("skillwire.host")


def missing_package() -> str:
    """The sentence that says what to install for search by meaning; empty if it is installed."""
    for package in (_PACKAGE, "numpy", "tokenizers"):
        if find_spec(package) is None:
            return f"search by meaning needs the package {package}: {pip_command('semantic')}"
    return ""


class _Model:
    """The vectors of parts of words, and the rules that take words apart."""

    def __init__(self, folder: Path) -> None:
        """Read the files in the folder of the package, or raise a `SourceError` that says what to install."""
        self.numpy: Any = import_module("numpy")
        try:
            self._weights = self._read_weights(folder / _WEIGHTS)
            self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(folder / _TOKENS))
        except Exception as error:
            reason = f"{type(error).__name__}: {clean_line(str(error)).text}"
            raise SourceError(
                f"the package {_PACKAGE} has no model that can be read here ({reason}): "
                f"install the version that belongs to Skillwire with {pip_command('semantic')}"
            ) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def vector(self, text: str) -> Any:
        """The mean of the vectors of a text, of length `_SCALE`, in whole numbers; zeros for an empty one."""
        numbers = self._tokenizer.encode(text, add_special_tokens=False).ids
        numpy = self.numpy
        if not numbers:
            return numpy.zeros(self._weights.shape[1], numpy.int8)
        mean = self._weights[numbers].astype(numpy.float32).mean(axis=0)
        length = float(numpy.sqrt((mean * mean).sum()))
        scaled = numpy.rint(mean * (_SCALE / length)) if length else mean
        return scaled.clip(-127, 127).astype(numpy.int8)

    def _read_weights(self, path: Path) -> Any:
        """The one table of a safetensors file, mapped into memory: rows are read when a word needs them."""
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = read_json(file.read(min(size, _MOST_HEADER)))
        table = header[_NAME]
        rows, columns = table["shape"]
        if table["dtype"] != "F16" or table["data_offsets"] != [0, 2 * rows * columns]:
            raise DocumentError("another table than the one that is expected")
        numpy = self.numpy
        return numpy.memmap(path, dtype="<f2", mode="r", offset=8 + size, shape=(rows, columns))


@lru_cache(maxsize=1)
def _model(folder: Path) -> _Model:
    """The model, which is read once for all hosts of a process."""
    return _Model(folder)


class SkillVectors(Generic[K]):
    """The vectors of the names and descriptions of skills, of at most `limits.search_vectors` of them.

    Not thread-safe: use it from one thread at a time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._model: _Model | None = None
        self._rows: dict[K, Any] = {}
        self._table: Any = None
        self._cut = 0

    def update(self, documents: Iterable[Document[K]], removed: Iterable[K] = ()) -> None:
        """Add or replace skills, and remove others."""
        model = self._loaded()
        before = self._cut
        for key in removed:
            self._rows.pop(key, None)
        for document in documents:
            self._rows.pop(document.key, None)
            if len(self._rows) >= self._limits.search_vectors:
                self._cut += 1
                continue
            words = document.name.replace("-", " ")
            self._rows[document.key] = model.vector(f"{words}: {document.description}")
        self._table = None
        if self._cut and not before:
            most = f"{self._limits.search_vectors:,}"
            _logger.warning("search by meaning covers %s skills; others are found by their words alone", most)

    def nearest(self, query: str, wanted: Callable[[K], bool] = lambda key: True) -> dict[K, float]:
        """The wanted skills that are closest to a question, each with the cosine; ties by their keys."""
        model = self._loaded()
        if not self._rows:
            return {}
        numpy = model.numpy
        if self._table is None:
            self._table = numpy.stack(list(self._rows.values()))
        asked = model.vector(clean_line(query[: self._limits.search_query_chars]).text)
        # Whole numbers: the sum does not depend on the order in which a processor adds.
        scores = numpy.matmul(self._table, asked, dtype=numpy.int32)
        rows: list[tuple[K, int]] = list(zip(self._rows, scores.tolist(), strict=True))
        close = [(key, score) for key, score in rows if score > 0 and wanted(key)]
        close.sort(key=lambda row: (-row[1], str(row[0])))
        return {key: score / _SCALE**2 for key, score in close[:MOST_SIMILAR]}

    def _loaded(self) -> _Model:
        if self._model is None:
            if missing := missing_package():
                raise SourceError(missing)
            spec = find_spec(_PACKAGE)
            folders = [] if spec is None else spec.submodule_search_locations or []
            self._model = _model(Path(next(iter(folders), _PACKAGE)))
        return self._model
