"""Settings put into a program that runs for real: its source is untouched and nothing is measured.

`autotune run` starts the program with `startup/` on its import path, which Python itself enters in
every process that the program starts. There `sitecustomize` waits for torch to be imported, and
`inject` then sets the process up as a measured run would be.
"""
