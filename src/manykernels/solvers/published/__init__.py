"""Published methods, one a file, as people call them; only the registry imports them."""
