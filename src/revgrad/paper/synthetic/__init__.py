"""The paper's generated data sets: MNIST-M, SYN NUMBERS, SYN SIGNS."""
