"""Decodes the memory of crashed machines to Arrow tables: the native half."""

from collections.abc import Sequence
from os import PathLike
from typing import Literal, final

import pyarrow as pa

_Source = str | PathLike[str] | bytes | bytearray
_TableName = Literal["dumps", "records", "calls", "crashes"]

__all__ = [
    "Region",
    "SCHEMA_VERSION",
    "Symbols",
    "VERSION",
    "decode",
    "detect",
    "schemas",
    "symbolize",
]

VERSION: str
"""Version of the package."""

SCHEMA_VERSION: int
"""Version of the tables, as in the metadata of each table."""

def decode(
    source: _Source,
    *,
    path: str | PathLike[str] | None = None,
    input: int = 0,
    symbols: Symbols | None = None,
    redact: bool = False,
) -> dict[_TableName, pa.Table]:
    """Decodes one input to the tables `dumps`, `records`, `calls` and `crashes`.

    `source` is a path, or the bytes of a file. With bytes, `path` fills the columns `path` and
    `machine`. `input` fills the column of that name. `symbols` gives names to traced addresses.
    With `redact`, the tables have no paths, log lines and messages.

    An unreadable input raises no exception: the column `error` of `dumps` has the reason.
    Raises `ValueError` for `path` together with a path as `source`.
    """

def schemas() -> dict[_TableName, pa.Schema]:
    """Returns the schema of each table. Units are in the metadata of the fields."""

def detect(source: _Source) -> list[Region]:
    """Finds the ramoops regions in a dump, convincing ones first.

    Raises `OSError` for a file that cannot be read, and `ValueError` for one that is no dump.
    """

def symbolize(
    addresses: Sequence[int | None],
    symbols: Symbols,
    *,
    kernel: str | None = None,
    kernel_offset: int = 0,
) -> list[str | None]:
    """Returns names such as `panic+0x8c/0x140`; `None` outside of known code.

    `kernel` and `kernel_offset` are columns of the table `dumps`. An address may be a signed
    number, as in the table `calls`.
    """

@final
class Region:
    """A ramoops region that was found in a dump."""

    @property
    def start(self) -> int:
        """Physical address; in a raw dump, the offset in the file."""

    @property
    def length(self) -> int:
        """Number of the region's bytes that the dump contains."""

    @property
    def convincing(self) -> bool:
        """Whether the evidence is stronger than any that ordinary data has by chance."""

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of Linux's `ramoops` module that divide a region in this way."""

    @property
    def evidence(self) -> list[str]:
        """Evidence, one finding per line."""

    @property
    def doubts(self) -> list[str]:
        """Open questions, one per line."""

@final
class Symbols:
    """Symbols of kernels, from a file or a directory.

    A file is a `System.map` (also gzipped), a copy of `/proc/kallsyms`, or a `vmlinux`. A
    directory has `System.map-RELEASE` (also `.gz`) or `vmlinux-RELEASE` of each kernel.
    """

    def __new__(cls, source: _Source) -> Symbols: ...
