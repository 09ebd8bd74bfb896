"""Content of tables: kinds of columns, encodings, views of samples, and unusable columns."""
