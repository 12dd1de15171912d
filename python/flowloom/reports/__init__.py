"""Reports: results and the claims ledger as pages of HTML that need nothing else, no network and no other file."""
