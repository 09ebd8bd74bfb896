"""Export of models for other programs: ONNX, SQL, Python with NumPy alone, and a score card."""
