# frozen_string_literal: true

# A program with the gems sidekiq-batch and sidekiq-unique-jobs, whose jobs run in Python:
#
#   ruby -I gems echoes.rb REDIS_URL batch ARGUMENT...   pushes a batch of PyReport, a job for each argument; prints bid and jids
#   ruby -I gems echoes.rb REDIS_URL batch-of CLASS ARGUMENT...   the same with a class that Ruby does not have
#   ruby -I gems echoes.rb REDIS_URL unique CLASS ARGUMENT   pushes a job; prints its jid, null where the lock is held
#   ruby -I gems echoes.rb REDIS_URL digests             prints the locks
#   REDIS_URL=... sidekiq -r echoes.rb -q python_echoes -q default
#
# Callbacks of batches append to the list `called`, death handlers to `died`.
require_relative "connect"
connect!(ARGV) unless defined?(Sidekiq::CLI)
require "sidekiq"
defined?(Sidekiq::CLI) ? quieten_redis : quieten
require "sidekiq/batch"
require "sidekiq-unique-jobs"
require_relative "../../../../examples/rails/pyworkers_echoes"

def note(list, told)
  Sidekiq.redis { |conn| conn.rpush(list, JSON.generate(told)) }
end

Sidekiq.configure_client do |config|
  # It refuses to push a class whose name is no constant of Ruby.
  config.client_middleware { |chain| chain.add SidekiqUniqueJobs::Middleware::Client } if ARGV.first == "unique"
end
Sidekiq.configure_server do |config|
  config.average_scheduled_poll_interval = 0.2
  config.client_middleware { |chain| chain.add SidekiqUniqueJobs::Middleware::Client }
  config.server_middleware { |chain| chain.add SidekiqUniqueJobs::Middleware::Server }
  config.death_handlers << lambda { |job, error|
    note("died", jid: job["jid"], class: job["class"], error: error.class.name, message: error.message)
  }
  SidekiqUniqueJobs::Server.configure(config)
end
SidekiqUniqueJobs.configure { |config| config.reaper = :none }

# The code is in Python.
class PyReport
  include Sidekiq::Worker
  sidekiq_options queue: "py"

  def perform(*)
    raise NotImplementedError, "runs in Python"
  end
end

class PyUnique < PyReport
  sidekiq_options queue: "py", lock: :until_executed, on_conflict: :log
end

class PyStart < PyReport
  sidekiq_options queue: "py", lock: :until_executing, on_conflict: :log
end

class PyLasting < PyReport
  sidekiq_options queue: "py", lock: :until_expired, lock_ttl: 600, on_conflict: :log
end

class PyRunning < PyReport
  sidekiq_options queue: "py", lock: :while_executing
end

class PyBoth < PyReport
  sidekiq_options queue: "py", lock: :until_and_while_executing, on_conflict: { client: :log, server: :reject }
end

class Called
  def on_success(status, options)
    note("called", event: "success", failures: status.failures, options: options)
  end

  def on_complete(status, options)
    note("called", event: "complete", failures: status.failures, options: options)
  end
end

def push_batch(class_name, arguments)
  batch = Sidekiq::Batch.new
  batch.on(:success, Called, "of" => batch.bid)
  batch.on(:complete, Called, "of" => batch.bid)
  jids = batch.jobs { arguments.each { |it| Sidekiq::Client.push("class" => class_name, "queue" => "py", "args" => [it]) } }
  emit(bid: batch.bid, jids: jids)
end

unless defined?(Sidekiq::CLI)
  word, *words = ARGV
  case word
  when "batch" then push_batch(PyReport, words)
  when "batch-of" then push_batch(words.shift, words)
  when "unique" then emit(jid: Object.const_get(words.first).perform_async(words.last))
  when "digests" then emit(digests: SidekiqUniqueJobs::Digests.new.entries.keys)
  end
end
