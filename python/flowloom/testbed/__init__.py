"""The networks of scenarios on this machine, with real switch ports: `flowloom testbed`.

`namespaces` makes network namespaces, `network` joins them as a scenario says, and `keeper` keeps a network up between
commands. `checks` measures what its ports do. `machine` boots user-mode Linux, whose kernel has what this one may lack.
"""
