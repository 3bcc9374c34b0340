"""Target models behind one small protocol."""
