"""Rows in chunks: arrays, memory maps, Parquet files and Dask collections behind a common map."""
