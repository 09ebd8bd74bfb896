"""What several methods are made of. Engines never import methods."""
