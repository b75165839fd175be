"""Record bodies as JSON text, straight from their bytes: a module per type that holds no secret, loaded when it is met.

`python -m tests.kraftlog.generate` writes them, as it writes `decoders`; `parts` and this file are written by hand.
Called by `lines` alone. A text is what `as_json` writes of the values that a decoder gives, character by character.
Whatever has a tag that no table knows, or does not fit the layout of today, is refused: the decoders judge that.
"""
