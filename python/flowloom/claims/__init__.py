"""What papers claim, held against what was measured here."""
