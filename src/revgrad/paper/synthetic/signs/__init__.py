"""The 43 signs of GTSRB: drawn from geometry, then photographed by arithmetic."""
