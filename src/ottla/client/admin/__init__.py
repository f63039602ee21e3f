"""Administration, as stories."""
