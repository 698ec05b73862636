"""Tables: CSV, TSV and Parquet, with columns of numbers and of words."""
