"""One search over strength, the mixing between selection and averaging, and which kernels take part."""
