# frozen_string_literal: true

# `sidekiq -r sidekiq.rb`; as a program, the client: see notes.py.
require "json"
require "sidekiq"

LEDGER = File.open(ENV.fetch("TORTURE_LEDGER"), File::WRONLY | File::APPEND)
LEDGER.sync = true
FAILED = ENV.fetch("TORTURE_FAILED")

# Otherwise redis-rb 4.8 prints a deprecation at each push that Sidekiq 6.4 makes.
Redis.sadd_returns_boolean = false

Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("TORTURE_REDIS") } }
Sidekiq.configure_server do |config|
  config.redis = { url: ENV.fetch("TORTURE_REDIS") }
  # Looks at retries and scheduled jobs each second or two, not each fifteen.
  config.options[:average_scheduled_poll_interval] = 1
end

class FailsOnce < StandardError; end

class Torture
  include Sidekiq::Worker
  sidekiq_options queue: "default"
  sidekiq_retry_in { ENV.fetch("TORTURE_RETRY_S").to_i }

  def perform(id, milliseconds, failures)
    note("begin", id)
    sleep(milliseconds / 1000.0)
    if failures.positive? && first_failure?(id)
      note("fail", id)
      raise FailsOnce, id
    end
    note("end", id)
  end

  private

  # One write, so that the kernel has the line whole.
  def note(word, id)
    LEDGER.syswrite(format("%s %.6f %s %s %d\n", word, Time.now.to_f, id, ENV.fetch("TORTURE_LIFE"), Process.pid))
  end

  def first_failure?(id)
    File.open(File.join(FAILED, id), File::CREAT | File::EXCL | File::WRONLY).close
    true
  rescue Errno::EEXIST
    false
  end
end

def push(job)
  args = job.values_at("id", "ms", "failures")
  job["at"].zero? ? Torture.perform_async(*args) : Torture.perform_at(job["at"], *args)
  { "pushed" => true }
rescue StandardError => error
  warn "#{job["id"]} #{error.inspect}"
  { "error" => error.inspect }
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  $stdin.each_line { |line| puts JSON.generate(push(JSON.parse(line))) }
end
