"""The former release and today's tree in one fleet, under kills, forward and back.

`FORMER` names the release and its commit; `releases` takes it out of the repository's history; `fleet` runs processes
and producers of both on one server; `shapes` pushes jobs of many features. The runs are noted and judged as in `chaos`.

    make upgrade
"""
