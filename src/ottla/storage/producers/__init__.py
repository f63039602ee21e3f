"""What a log knows of those who wrote to it: its producers and its leaders."""
