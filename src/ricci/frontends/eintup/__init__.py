"""Einsum Tuple: rank-agnostic index programs, their constraints, and the call they must equal.

Source: "Einsum Tuple - a mini-language for defining tensor operations"; docs/einsum-tuple.md says
what Ricci decides where it is silent.
"""
