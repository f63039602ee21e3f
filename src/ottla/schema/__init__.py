"""How messages are declared, and the codecs compiled from the declarations."""
