"""`replace` for frozen Structs and for dataclasses, with field names that mypy checks.

mypy checks field names in calls of `dataclasses.replace` only, there also those of Structs. So mypy sees that function,
and at run time the one below is called.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

if TYPE_CHECKING:
    from dataclasses import replace
else:

    def replace(value: Any, /, **changes: Any) -> Any:
        """Copy of a value with other values for these fields."""
        return (structs.replace if isinstance(value, Struct) else dataclasses.replace)(value, **changes)


__all__ = ["replace"]
