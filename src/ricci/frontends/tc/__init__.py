"""Tensor Comprehensions: functions of index statements whose ranges are inferred.

The way of a text: `lexer` and `parser` make a tree (`syntax`), `check` binds its names and finds
its types (`program`), `ranges` finds the range of every index, `lower` makes a graph of it.
"""
