"""Models of other toolkits: imported as runs, and runs exported for them."""
