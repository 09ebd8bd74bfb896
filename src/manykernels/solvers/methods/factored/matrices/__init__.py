"""N x N matrices of a working set: of the kernels whose factors cannot be fine enough, beside factors of the others."""
