"""Stands for the library in programs that tests start: users do not have it. kio prepares it where it is installed,
which takes longer than all else that a program loads.
"""

raise ImportError("as where only the product is installed", name=__name__)
