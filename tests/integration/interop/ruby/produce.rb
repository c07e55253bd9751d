# frozen_string_literal: true

# Pushes jobs with the real Sidekiq client.
#
#   ruby produce.rb [URL|PORT] push|perform|bulk|in|activejob FLAGS
#
# push       Sidekiq::Client.push with the class as a string, as a program that does not hold the class does
# perform    SomeClass.set(options).perform_async, the everyday call
# bulk       SomeClass.perform_bulk: slices of 1000, one LPUSH each
# in         SomeClass.set(options).perform_in / perform_at
# activejob  what the SidekiqAdapter of Rails or of Sidekiq 8 pushes, around a serialized job written by hand (Rails is not needed)
require_relative "connect"
require "optparse"
require "securerandom"
require "time"
require "sidekiq"

# The adapter's: an empty wrapper class whose sidekiq options are the defaults. Rails has the adapter, and Sidekiq 8.
module ActiveJob
  module QueueAdapters
    class SidekiqAdapter
      class JobWrapper
        include Sidekiq::Worker
      end
    end
  end
end

module Sidekiq
  module ActiveJob
    class Wrapper
      include Sidekiq::Worker
    end
  end
end

WRAPPER = Sidekiq::VERSION.to_i < 8 ? ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper : Sidekiq::ActiveJob::Wrapper

Request = Struct.new(:queue, :class_name, :count, :args, :interval, :at, :options, keyword_init: true) do
  def each_args
    Array.new(count) { |i| args || [i] }
  end

  # A path such as Billing::InvoiceJob, made on the spot: the class need not exist anywhere else.
  def job_class
    class_name.split("::").inject(Object) do |scope, name|
      next scope.const_get(name, false) if scope.const_defined?(name, false)

      scope.const_set(name, Class.new { include Sidekiq::Worker })
    end
  end

  def setter
    job_class.set(options.merge("queue" => queue))
  end
end

def push(request)
  client = Sidekiq::Client.new
  item = request.options.merge("queue" => request.queue, "class" => request.class_name)
  # An `at` given to Client.push is not compared with now: even a past one goes to the schedule set.
  item["at"] = request.at || Time.now.to_f + request.interval if request.at || request.interval
  request.each_args.map { |args| client.push(item.merge("args" => args)) }
end

def perform(request)
  request.each_args.map { |args| request.setter.perform_async(*args) }
end

def bulk(request)
  request.setter.perform_bulk(request.each_args)
end

def perform_in(request)
  fail! "`in` needs --in or --at" unless request.at || request.interval
  request.each_args.map { |args| request.setter.perform_in(request.at || request.interval, *args) }
end

def activejob(request)
  request.each_args.map do |args|
    serialized = {
      "job_class" => request.class_name, "job_id" => SecureRandom.uuid, "provider_job_id" => nil,
      "queue_name" => request.queue, "priority" => nil, "arguments" => args, "executions" => 0,
      "exception_executions" => {}, "locale" => "en", "timezone" => "UTC", "enqueued_at" => Time.now.utc.iso8601
    }
    WRAPPER
      .set(request.options.merge("wrapped" => request.class_name, "queue" => request.queue))
      .perform_async(serialized)
  end
end

COMMANDS = {
  "push" => method(:push), "perform" => method(:perform), "bulk" => method(:bulk),
  "in" => method(:perform_in), "activejob" => method(:activejob)
}.freeze

def parse(argv)
  request = Request.new(queue: "default", class_name: "RubyJob", count: 1, options: {})
  OptionParser.new do |o|
    o.on("--queue NAME") { |v| request.queue = v }
    o.on("--class NAME") { |v| request.class_name = v }
    o.on("--count N", Integer) { |v| request.count = v }
    o.on("--args JSON", "array, the same for all jobs (default: [0], [1], ...)") { |v| request.args = JSON.parse(v) }
    o.on("--in SECONDS", Float) { |v| request.interval = v }
    o.on("--at EPOCH", Float) { |v| request.at = v }
    o.on("--options JSON", 'e.g. {"retry":3,"tags":["a"],"backtrace":5,"retry_queue":"low","dead":false}') do |v|
      request.options = JSON.parse(v)
    end
  end.parse!(argv)
  request
end

connect!(ARGV)
quieten
begin
  command = COMMANDS.fetch(ARGV.shift) { fail! "a command, please: #{COMMANDS.keys.join(", ")}" }
  jids = command.call(parse(ARGV))
  emit("count" => jids.size, "jids" => jids)
rescue StandardError => e
  fail! "#{e.class}: #{e.message}"
end
