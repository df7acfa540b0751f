"""A page that shows a compiled program: its graph, its kernels, its memory."""
