"""Choosing without target labels: among layers, among finished runs, and by search."""
