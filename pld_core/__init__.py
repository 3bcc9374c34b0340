"""Prompt lookup decoding: the decoder, its stream of passes, and what can be read from it."""

__version__ = "0.1.0"
