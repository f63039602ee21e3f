"""The compiled module of native/parallel_sync.c."""

MOST_FILES: int

class ParallelSync:
    """Rounds of fdatasync or syncfs, one at a time; at the end of each 1 is added to the eventfd `wake_fd`."""

    def __init__(self, wake_fd: int) -> None: ...
    def begin(self, files: tuple[int, ...]) -> None:
        """Sync these at once, 1 to `MOST_FILES` descriptors; OSError where no thread is to be had."""

    def begin_file_system(self, file: int) -> None:
        """Sync all that is dirty on the file system of the descriptor, as `begin` does; Linux only."""

    def end(self) -> tuple[int, int]:
        """The errno and the place of the first file that failed, (0, 0) where none did; RuntimeError before the end."""

    def stop(self) -> None:
        """Wait for the round under way and end the threads."""
