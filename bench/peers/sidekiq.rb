# frozen_string_literal: true

# `sidekiq -r sidekiq.rb`; as a program, the client: see harness.py.
require "json"
require "sidekiq"

REDIS = { url: ENV.fetch("BENCH_REDIS") }.freeze
STAMPS = File.open(ENV.fetch("BENCH_STAMPS"), File::WRONLY | File::APPEND | File::CREAT)
STAMPS.sync = true
UNTIMED = 50
SLICE = 1_000

# Otherwise redis-rb 4.8 prints a deprecation at each push that Sidekiq 6.4 makes.
Redis.sadd_returns_boolean = false

def now_ns
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

# The first look at what is scheduled is put off by up to 15 s; this only brings it forward.
module LookAtOnce
  private

  def initial_wait; end
end

Sidekiq.configure_client { |config| config.redis = REDIS }
Sidekiq.configure_server do |config|
  config.redis = REDIS
  config.logger.level = Logger::WARN
  Sidekiq::Scheduled::Poller.prepend(LookAtOnce)
end

class Noop
  include Sidekiq::Worker
  sidekiq_options queue: "default"

  def perform(*) end
end

class Nap < Noop
  def perform(milliseconds, *)
    sleep(milliseconds / 1000.0)
  end
end

class Stamp < Noop
  def perform(sent_ns)
    STAMPS.write("#{now_ns - sent_ns}\n")
  end
end

JOBS = { "noop" => Noop, "nap" => Nap, "stamp" => Stamp }.freeze

def timed(job, args, count)
  taken = Array.new(UNTIMED + count) do
    began = now_ns
    job.perform_async(*args)
    now_ns - began
  end
  taken.drop(UNTIMED)
end

def fill(job, args, count)
  began = now_ns
  Array.new(count, args).each_slice(SLICE) { |rows| Sidekiq::Client.push_bulk("class" => job, "args" => rows) }
  (now_ns - began) / 1e9
end

def answer(request)
  job, args, count = JOBS.fetch(request.fetch("job", "noop")), request.fetch("args", []), request.fetch("count", 1)
  case request["do"]
  when "stamp"
    Stamp.perform_async(request.fetch("clock", true) ? now_ns : 0)
    { "pushed" => 1 }
  when "time" then { "ns" => timed(job, args, count) }
  else { "pushed" => count, "seconds" => fill(job, args, count) }
  end
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  $stdin.each_line { |line| puts JSON.generate(answer(JSON.parse(line))) }
end
