"""Figures of papers. A TOML file defines what a figure runs, draws and claims; see docs/figures.md."""
