"""Commands of the paper: `revgrad reproduce` and `revgrad data`."""
