"""The demo: a year of flights from topics through Spark into a lake and a picture. `python -m ottla.demo` runs it.

`__main__.py` tells the tale; each step is a module. The room stands above floor 7 because it shows the other rooms
together.
"""
