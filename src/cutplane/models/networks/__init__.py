"""Networks below linear models, with torch."""
