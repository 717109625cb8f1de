"""The places in torch where a training program can be watched and set up, whatever it looks like
itself.

Classes are patched in place, so it does not matter how a script imports them. Each seam has
`install(live)`.
"""
