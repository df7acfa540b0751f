"""Compilation ahead of time: an object file and a header of C, which run without Python."""
