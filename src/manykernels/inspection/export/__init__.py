"""Models as files that other programs run: ONNX, SQL, Python with NumPy alone, and a card to score by hand."""
