"""The package that `ottla connect new-plugin` writes. `starter` stands for its name."""
