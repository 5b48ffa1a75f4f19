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
SCHEMA_VERSION: int

def decode(
    source: _Source,
    *,
    path: str | PathLike[str] | None = None,
    input: int = 0,
    symbols: Symbols | None = None,
    redact: bool = False,
) -> dict[_TableName, pa.Table]: ...
def schemas() -> dict[_TableName, pa.Schema]: ...
def detect(source: _Source) -> list[Region]: ...
def symbolize(
    addresses: Sequence[int | None],
    symbols: Symbols,
    *,
    kernel: str | None = None,
    kernel_offset: int = 0,
) -> list[str | None]: ...

@final
class Region:
    @property
    def start(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def convincing(self) -> bool: ...
    @property
    def parameters(self) -> dict[str, int]: ...
    @property
    def evidence(self) -> list[str]: ...
    @property
    def doubts(self) -> list[str]: ...

@final
class Symbols:
    def __new__(cls, source: _Source) -> Symbols: ...
