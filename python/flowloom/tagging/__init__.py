"""Taggers in the kernels of hosts: `flowloom pias`.

`command` runs the program `flowloom-tag` of crates/tagger, `agents` talks to taggers here and on other hosts, and `controller`
computes thresholds from the sizes of messages that they have counted.
"""
