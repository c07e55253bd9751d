"""Commands that people give to processes, which answer them; and reports that processes give to people.

`admin`: gives commands to processes and collects their answers.
`api`: the reports with which a running program tells people something.
`built_in_commands`: the commands that every process knows. They run in the thread `commands`, and wait for nothing.
`call`: calls: commands that people give to processes of the fleet, and the answers of these.
`channel_tables`: tables of the messages to the processes and from them: calls, answers, reports. Also the audit list.
`commands`: `reports`.
`contract`: calls: commands that people give to processes, which answer them. Also the reports that processes give to
people, and the audit list of what people have changed.
`memory`: calls in the memory of this process.
`own_commands`: the commands that a program declares with `@workers.command`: each call runs in a thread of its own.
`record`: calls, answers and reports as JSON.
`redis`: calls in Redis: a stream, whose name is also the channel that tells a new one. Answers: a list for each call.
Reports and the audit list: a stream each.
`service`: the commands thread: obeys the calls that people give to this process, and answers each.
`views`: the reports that programs give by `workers.report`.
"""
