"""Results of commands as tables in a terminal, or as plain columns in a pipe."""
