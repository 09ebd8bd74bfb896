"""Rows in chunks: arrays, memory maps, Parquet files and Dask collections behind one map over chunks."""
