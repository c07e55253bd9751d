# frozen_string_literal: true

# Reads and edits what is in Redis through the real Sidekiq API, as Sidekiq Web does.
#
#   ruby api.rb [URL|PORT] COMMAND ARGUMENTS
#
#   stats | queues | processes | work
#   list PLACE                  one line an entry; PLACE is queue:NAME, schedule, retry or dead
#   find PLACE JID              that entry
#   delete PLACE JID            out of its queue or set
#   retry|add|kill PLACE JID    "retry now", "add to queue", "kill" of an entry of a set
#   reschedule PLACE JID EPOCH
#   clear PLACE
#   signal IDENTITY quiet|stop|dump
#
# Exits 1 with {"found":false} if there is no such entry, and if an entry cannot be read.
require_relative "connect"
require "sidekiq"
require "sidekiq/api"

SETS = { "schedule" => Sidekiq::ScheduledSet, "retry" => Sidekiq::RetrySet, "dead" => Sidekiq::DeadSet }.freeze

def place(name)
  return Sidekiq::Queue.new(name.delete_prefix("queue:")) if name.start_with?("queue:")

  SETS.fetch(name) { fail! "no place #{name}: queue:NAME, #{SETS.keys.join(", ")}" }.new
end

# Through Time, as the Web pages do: anything they would trip over shall raise here too. Sidekiq 8 has methods that
# tell its own milliseconds from the seconds of others.
def time(job, name)
  return exact(job.public_send(name)) if job.respond_to?(name)

  exact(job[name] && Time.at(job[name]))
end

# Time#to_f of Ruby 3.1 misses the double that went in by one bit: Time.at(1739522590.25).to_f is 1739522590.2499998.
def exact(time)
  time&.to_r&.to_f
end

# A payload that is not UTF-8 is listed like any other; only JSON.generate would refuse it.
def printable(value)
  case value
  when String then value.scrub
  when Array then value.map { |v| printable(v) }
  when Hash then value.to_h { |k, v| [k.scrub, printable(v)] }
  else value
  end
end

def describe(job)
  line = {
    # dup: display_args overwrites the last argument of an encrypted job in place.
    "class" => job.klass, "display_class" => job.display_class, "args" => job.args.dup,
    "display_args" => job.display_args, "jid" => job.jid, "queue" => job.queue, "tags" => job.tags,
    "latency" => job.latency, "created_at" => exact(job.created_at), "enqueued_at" => exact(job.enqueued_at),
    "failed_at" => time(job, "failed_at"), "retried_at" => time(job, "retried_at"),
    "retry_count" => job["retry_count"], "error_class" => job["error_class"],
    "error_message" => job["error_message"], "error_backtrace" => job.error_backtrace, "item" => job.item
  }
  line.merge!("score" => job.score, "at" => exact(job.at)) if job.is_a?(Sidekiq::SortedEntry)
  printable(line)
end

def stats
  s = Sidekiq::Stats.new
  names = %i[processed failed scheduled_size retry_size dead_size enqueued processes_size workers_size
             default_queue_latency queues]
  today = Sidekiq::Stats::History.new(1)
  names.to_h { |name| [name.to_s, s.public_send(name)] }
       .merge("processed_today" => today.processed.values.first, "failed_today" => today.failed.values.first)
end

def act(verb, place_name, jid, *rest)
  job = place(place_name).find_job(jid)
  unless job
    emit("found" => false)
    exit 1
  end
  emit("found" => true, "result" => change(job, verb, rest))
end

def change(job, verb, rest)
  case verb
  when "find" then describe(job)
  when "delete" then job.delete
  when "reschedule" then job.reschedule(Time.at(Float(rest.fetch(0))))
  when "add" then (job.add_to_queue; true)
  else (job.public_send(verb); true)
  end
end

def signal(identity, name)
  process = Sidekiq::ProcessSet.new.find { |p| p.identity == identity } or fail! "no process #{identity}"
  process.public_send({ "quiet" => :quiet!, "stop" => :stop!, "dump" => :dump_threads }.fetch(name))
  emit("signalled" => identity)
end

# An object in Sidekiq 7 and later, before that a hash whose payload is parsed.
def work
  Sidekiq::WorkSet.new.each do |id, tid, work|
    old = work.is_a?(Hash)
    queue, at, payload = old ? work.values_at("queue", "run_at", "payload") : [work.queue, work.run_at, JSON.parse(work.payload)]
    emit("process" => id, "thread" => tid, "queue" => queue, "run_at" => at.to_i, "payload" => payload)
  end
end

def processes
  # Sidekiq::Process keeps its hash to itself; Web reads these fields from it.
  fields = %w[identity hostname pid tag labels queues concurrency started_at busy beat quiet rss rtt_us]
  Sidekiq::ProcessSet.new.each { |p| emit(fields.to_h { |field| [field, p[field]] }) }
end

def run(command, *rest)
  case command
  when "stats" then emit(stats)
  when "queues" then Sidekiq::Queue.all.each { |q| emit("name" => q.name, "size" => q.size, "latency" => q.latency) }
  when "processes" then processes
  when "work" then work
  when "list" then place(*rest).each { |job| emit(describe(job)) }
  when "find", "delete", "retry", "add", "kill", "reschedule" then act(command, *rest)
  when "clear" then (place(*rest).clear; emit("cleared" => rest.first))
  when "signal" then signal(*rest)
  else fail! "no command #{command}"
  end
end

connect!(ARGV)
quieten
begin
  run(*ARGV)
rescue StandardError => e
  fail! "#{e.class}: #{e.message}"
end
