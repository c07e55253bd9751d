# frozen_string_literal: true

# What the Ruby programs share: where Redis is, and JSON lines on stdout.
require "json"

# The first argument may be a URL or a port. There is no default: localhost:6379 could be somebody's database.
# Must run before sidekiq is used: its pool reads REDIS_URL once.
def connect!(argv)
  address = argv.shift if argv.first&.match?(%r{\A\d+\z|://})
  address = "redis://127.0.0.1:#{address}" if address&.match?(/\A\d+\z/)
  ENV["REDIS_URL"] = address if address
  fail! "give a Redis URL or port first, or set REDIS_URL" unless ENV["REDIS_URL"]
end

def emit(line)
  $stdout.puts JSON.generate(line)
end

def fail!(message)
  emit("error" => message)
  exit 1
end

# Sidekiq logs to stdout, which is kept for our JSON lines.
def quieten
  Sidekiq.logger.reopen($stderr)
  Sidekiq.logger.level = Logger::WARN
  quieten_redis
end

# The gem redis 4.8 warns at each push of Sidekiq 6.4 that SADD will return an integer one day; this setting, of what
# Ruby code gets back, says that we know. Sidekiq 7 and later do not have that gem.
def quieten_redis
  Redis.sadd_returns_boolean = false if defined?(Redis)
end
