"""Central configurations: stored in the broker with versions, and taken by the processes while they run.

`pyworkers config push` checks a text and stores it as the newest version of its name. A process with --config-from
starts from the newest version, over its local file (`start`). Then its thread `configuration` looks for newer ones
(`service`), and gives its launchers what can change while they run (`config_change`). The rest waits for the next
start, and the process names it (`differences`). Everybody who may write to the broker could write such a text, so it
holds only options that change how much a process does, see `central`.

- `stored_config`: a version. `core.config_in_force` is what a process tells of it.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`: the broker that does it.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`: people.

For users: docs/central-configuration.md.
"""
