"""The engines that keep the metadata log: `sqlite` for one machine, `memory` for tests."""
