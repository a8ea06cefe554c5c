"""Document level: documents in, translations out, in the formats that people have (section 4 of the paper)."""
