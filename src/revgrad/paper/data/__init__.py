"""The paper's real data sets: loaders of their official files, and how to get these."""
