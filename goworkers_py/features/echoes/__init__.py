"""Echoes: when a job of Ruby has ended here, Ruby is told by a copy of it.

`end`: which ends of jobs Ruby is told of, by an echo in the step of the end.
`for_ruby`: effects for Ruby in the step that ends a job: an echo, see `features.echoes.end`, or its lock of sidekiq-
unique-jobs.
`payload`: the echo of a job: its payload, which Ruby's Sidekiq runs without the job's code.
`run`: jobs of Ruby with an echo, or with a lock of sidekiq-unique-jobs that is freed here, see `for_ruby`.
"""
