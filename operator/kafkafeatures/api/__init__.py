"""The resource as types: spec, status, reasons, names. It reads leniently what other releases wrote, and keeps it."""
