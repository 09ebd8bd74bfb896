"""One sample at a time: what UFO-MKL and OBSCURE share."""
