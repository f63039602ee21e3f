"""The ground floor: ids, error codes, the seams to the world, and the driver of stories."""
