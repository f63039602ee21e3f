"""The metadata log as this broker follows and writes it: the commands that wait, and the lease that reading renews."""
