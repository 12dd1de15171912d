"""Claims of papers, and their comparison with measurements."""
