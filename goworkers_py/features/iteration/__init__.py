"""Iterable jobs: generator functions that go on where an earlier run has stopped.

`cursor`: how far an iterable job has got, as it is kept between its runs.
`iterable`: which functions are iterable jobs: generator functions that take a cursor.
`memory`: the cursors of iterable jobs in the memory of this process.
`redis`: the cursors of iterable jobs in Redis, in the keys of Sidekiq 7.3. Their last one is written by settle.lua.
`run`: runs a job whose code is a generator: from its last cursor on, until it ends or is to go on later.
"""
