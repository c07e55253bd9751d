# frozen_string_literal: true

# The job classes of a real Sidekiq process:
#
#   REDIS_URL=redis://127.0.0.1:PORT sidekiq -r ./worker.rb -q QUEUE -c 1
#
# Each run that returns appends the job's payload to the list `ran`, each that raises to `raised`.
require "sidekiq"
require_relative "connect"

# The payload as Sidekiq parsed and dumped it, recorded after the run, so that a test that waits for `ran` can
# rely on the job having returned. (Sidekiq acknowledges by having popped: there is nothing later to wait for.)
class Recorder
  def call(_worker, job, _queue)
    yield
    append("ran", job)
  rescue StandardError
    append("raised", job)
    raise
  end

  private

  def append(list, job)
    Sidekiq.redis { |conn| conn.rpush(list, dump(job)) }
  end

  # Ruby parses strings that are not UTF-8 but refuses to write them: such a run is recorded without them.
  def dump(job)
    Sidekiq.dump_json(job)
  rescue JSON::GeneratorError
    Sidekiq.dump_json(job.slice("jid", "class"))
  end
end

# With the default settings a due entry waits up to 15 s for the first look: this is all that is changed.
module LookAtOnce
  private

  def initial_wait; end
end

quieten_redis

Sidekiq.configure_server do |config|
  config.average_scheduled_poll_interval = 0.2
  config.server_middleware { |chain| chain.add(Recorder) }
  Sidekiq::Scheduled::Poller.prepend(LookAtOnce)
end

class RubyJob
  include Sidekiq::Worker

  def perform(*) end
end

module Billing
  class InvoiceJob < RubyJob; end
end

class FailingJob
  include Sidekiq::Worker

  def perform(*)
    raise ArgumentError, "failed <on purpose> é"
  end
end

# Stays busy, so that the process shows work in progress, or must be given back at a stop.
class SlowJob
  include Sidekiq::Worker

  def perform(seconds, *)
    sleep seconds
  end
end

# Goes on until it is cancelled. Sidekiq has such jobs since 7.3.
if defined?(Sidekiq::IterableJob)
  class EndlessJob
    include Sidekiq::IterableJob

    def build_enumerator(*, cursor:)
      array_enumerator((0..1_000_000).to_a, cursor: cursor)
    end

    def each_iteration(_number, *)
      sleep 0.05
    end

    def on_cancel
      Sidekiq.redis { |conn| conn.rpush("cancelled", jid) }
    end
  end
end

# Runs what `produce.rb activejob`, or Rails, pushed: without Rails there is nothing to deserialize it with.
module ActiveJob
  module QueueAdapters
    class SidekiqAdapter
      class JobWrapper < RubyJob; end
    end
  end
end
