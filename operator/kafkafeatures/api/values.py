"""`replace` for the values of this code, which are frozen Structs, and for the few that must be dataclasses.

mypy checks the names of fields only in calls of `dataclasses.replace`, there for Structs too: so it is shown that one.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

if TYPE_CHECKING:
    from dataclasses import replace
else:

    def replace(value: Any, /, **changes: Any) -> Any:
        """Another value of the same kind, which differs in these fields."""
        return (structs.replace if isinstance(value, Struct) else dataclasses.replace)(value, **changes)


__all__ = ["replace"]
