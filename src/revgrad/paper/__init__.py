"""The paper's experiments, by the library's own public API: data, networks, baselines, tables.

Nothing outside imports this package; registries and the command line know it by strings.
"""
