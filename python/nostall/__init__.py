"""Decodes the memory of crashed machines to Arrow tables.

    >>> import nostall
    >>> tables = nostall.decode("memory.bin")       # doctest: +SKIP
    >>> tables["crashes"].to_pandas()               # doctest: +SKIP

`decode` returns the tables `dumps`, `records`, `calls` and `crashes` of one input. `detect` finds
ramoops regions. `symbolize` gives names to addresses of a kernel.
"""

from ._nostall import (
    SCHEMA_VERSION,
    Region,
    Symbols,
    decode,
    detect,
    schemas,
    symbolize,
)
from ._nostall import VERSION as __version__

__all__ = [
    "SCHEMA_VERSION",
    "Region",
    "Symbols",
    "__version__",
    "decode",
    "detect",
    "schemas",
    "symbolize",
]
