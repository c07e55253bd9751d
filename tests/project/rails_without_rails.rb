#!/usr/bin/env ruby
# frozen_string_literal: true

# Stands for `bin/rails` where Rails is not installed: `rails runner CODE`, `rails test FILE`. Sidekiq is the real one.
# Active Job is as much of it as a push needs: the wrapper's class, and the job as Rails 6.1 to 8 serialize it.
require "securerandom"
require "sidekiq"
require "time"

module ActiveJob
  module QueueAdapters
    class SidekiqAdapter
      class JobWrapper
        include Sidekiq::Job
      end
    end
  end

  class Base
    Enqueued = Struct.new(:job_id, :provider_job_id)

    def self.queue_as(name)
      @queue = name
    end

    def self.perform_later(*arguments, **keywords)
      keywords = keywords.transform_keys(&:to_s)
      arguments << keywords.merge("_aj_ruby2_keywords" => keywords.keys) unless keywords.empty?
      job = {
        "job_class" => name, "job_id" => SecureRandom.uuid, "provider_job_id" => nil, "queue_name" => @queue,
        "priority" => nil, "arguments" => arguments, "executions" => 0, "exception_executions" => {},
        "locale" => "en", "timezone" => "UTC", "enqueued_at" => Time.now.utc.iso8601
      }
      wrapper = QueueAdapters::SidekiqAdapter::JobWrapper.set("wrapped" => name, "queue" => @queue)
      Enqueued.new(job["job_id"], wrapper.perform_async(job))
    end
  end
end

Dir["app/*/**/*.rb"].each { |file| require File.expand_path(file) }
case ARGV.shift
when "runner"
  eval(ARGV.fetch(0)) # rubocop:disable Security/Eval
when "test"
  $LOADED_FEATURES << "test_helper.rb"
  require "minitest/autorun"
  require File.expand_path(ARGV.shift)
end
