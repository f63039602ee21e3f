"""The simulated world: the real broker code on virtual time, a disk that forgets and a network that fails."""
