"""Commands that people give to processes, which answer them; and reports that programs give to people.

A person gives a *call*, by the command line, a page or `inspector.call`. It stands in one stream in the broker, and
each process of its target reads it there, obeys and answers (`service`). The commands that every process knows are done
in the thread `commands` itself (`built_in_commands`), those of the program in threads of their own (`own_commands`). A
process that knows no calls is asked by a signal, as Sidekiq does it: that is the engine's, see `core.command`.

- `call`: the values. `record`: they are stored as JSON.
- `contract`: what a broker must do; `redis`, `redis_part`, `memory`: brokers that do it.
- `api`: `workers.report`. `admin`: verbs of the inspector. `commands`, `views`, `access`: people.

For users: docs/commands-and-reports.md.
"""
