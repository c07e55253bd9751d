# frozen_string_literal: true

# Jobs under locks of sidekiq-unique-jobs whose code is in Ruby as well as in Python, so that both may work one queue:
#
#   ruby -I gems locks.rb REDIS_URL push COUNT WORD CLASS...   pushes COUNT jobs of each class; prints their jids
#   ruby -I gems locks.rb REDIS_URL orphans                    prints the locks that the gem's reaper would delete
#   ruby -I gems locks.rb REDIS_URL retry-dead                 pushes all dead jobs again, as the pages do
#   ruby -I gems locks.rb REDIS_URL known                      prints the gem's names of locks
#   REDIS_URL=... sidekiq -r locks.rb -q py
#
# A run adds to the list `began:CLASS` how many runs of its lock there are now, and to `by:CLASS` who runs it. It ends
# when there is no key `closed`. It fails if the key `failing` counts more than 0.
require_relative "connect"
connect!(ARGV) unless defined?(Sidekiq::CLI)
require "sidekiq"
defined?(Sidekiq::CLI) ? quieten_redis : quieten
require "sidekiq/api"
require "sidekiq-unique-jobs"

Sidekiq.configure_client do |config|
  config.client_middleware { |chain| chain.add SidekiqUniqueJobs::Middleware::Client }
end
Sidekiq.configure_server do |config|
  config.average_scheduled_poll_interval = 3600 # Python promotes what is due
  config.client_middleware { |chain| chain.add SidekiqUniqueJobs::Middleware::Client }
  config.server_middleware { |chain| chain.add SidekiqUniqueJobs::Middleware::Server }
  SidekiqUniqueJobs::Server.configure(config)
end
SidekiqUniqueJobs.configure { |config| config.reaper = :none }

class Locked
  include Sidekiq::Worker

  def perform(word)
    name = self.class.name
    Sidekiq.redis do |conn|
      conn.rpush("began:#{name}", conn.incr("inside:#{name}:#{word}"))
      conn.rpush("by:#{name}", "ruby")
      sleep 0.02
      sleep 0.02 while conn.get("closed")
      conn.decr("inside:#{name}:#{word}")
      raise "asked to fail" if conn.get("failing")
    end
  end
end

# The names of the gem, and what it does by itself on the server.
{
  while_executing: nil, while_executing_reject: nil, around_perform: nil, while_busy: nil, while_working: nil,
  until_and_while_executing: { client: :log, server: :reject }, until_executing: :log, while_enqueued: :log,
  until_executed: :log, until_completed: :log, until_performed: :log, until_processed: :log,
  until_successfully_completed: :log, until_expired: :log
}.each do |lock, on_conflict|
  job = Class.new(Locked) { sidekiq_options queue: "py", lock: lock, on_conflict: on_conflict, retry: 5 }
  Object.const_set(lock.to_s.split("_").map(&:capitalize).join, job)
end
UntilExpired.sidekiq_options lock_ttl: 600

unless defined?(Sidekiq::CLI)
  word, *words = ARGV
  case word
  when "push"
    count, argument, *names = words
    jobs = names.flat_map { |name| [name] * count.to_i }
    emit(jids: jobs.map { |name| Object.const_get(name).perform_async(argument) })
  when "orphans"
    # It deletes none at all while any job runs that is younger than ten seconds.
    SidekiqUniqueJobs::Orphans::RubyReaper.define_method(:considered_active?) { |_| false }
    emit(orphans: Sidekiq.redis { |conn| SidekiqUniqueJobs::Orphans::RubyReaper.new(conn).orphans })
  when "retry-dead"
    Sidekiq::DeadSet.new.retry_all
    emit({})
  when "known"
    emit(known: SidekiqUniqueJobs.locks.to_h { |name, lock| [name, lock.name.split("::").last] })
  end
end
