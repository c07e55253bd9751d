"""For Ruby: the gems that look after a job of Ruby know how it has ended here.

Ruby pushes a job in a batch, or under a lock, and a worker in Python runs it. The code of the gem that counts the batch
or frees the lock is Ruby's. So either Ruby runs it, for an *echo*: the payload comes into a queue of Ruby once more,
and its Sidekiq runs the middleware without the job's code. Or, with `locks = native`, the locks of sidekiq-unique-jobs
are taken and freed here. Both are decided in one place (`end`), because each lock is freed by one of the two. The
section [echo] of the configuration says which jobs have which (`options`). So the effects of a move follow from the
payload and the configuration.

- `payload`: the marks of Ruby's gems in a payload, and the echo. `lock`: the lock of a payload.
- `run`: a job does not begin while another one holds its lock, and the effects of its end. `effects`: those on locks.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`: Redis does it, in the keys of the gem. `memory`: no
  Ruby reaches it.
- `access`: the access rules.

For users: docs/echoes-for-ruby.md.
"""
