"""Figures as data: a TOML file says what is run, drawn and claimed; see docs/figures.md."""
