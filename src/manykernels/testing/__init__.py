"""What tests of the library are made of: contracts to inherit, small problems, and independent oracles."""
