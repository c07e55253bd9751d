# frozen_string_literal: true

# Acknowledges jobs that have ended in Python, for the batches and locks of this program. The documentation of
# goworkers-py tells about it on its page "Echoes for Ruby".
#
# In a Rails application: config/initializers/pyworkers_echoes.rb
#
# pyworkers pushes the payload of each such job to the queue below. A Sidekiq process that works this queue runs its
# server middleware around the job as always, but not the code of the job: the middleware of batches and of locks takes
# its note of the end. For Sidekiq 6.4 to 8.1.
require "sidekiq"
require "sidekiq/processor"

module Pyworkers
  module Echoes
    # The same name as `queue` in the section [echo] of pyworkers.
    QUEUE = ENV.fetch("PYWORKERS_ECHO_QUEUE", "python_echoes")

    # Death handlers get this error for a job that did not succeed in Python.
    class NoSuccess < StandardError; end
    # It failed for good: its retries are exhausted, or it has none.
    class Died < NoSuccess; end
    # Somebody cancelled it, or deleted it before it ran.
    class Cancelled < NoSuccess; end
    # It was not begun before it expired.
    class Expired < NoSuccess; end

    ERRORS = { "cancelled" => Cancelled, "expired" => Expired }.freeze

    # The job for which this program has no class.
    class UnknownJob
      include(defined?(Sidekiq::Job) ? Sidekiq::Job : Sidekiq::Worker)

      def perform(*) end
    end

    # Takes the place of the job's own code.
    module NoCode
      attr_accessor :pyworkers_echo

      def perform(*)
        told = pyworkers_echo
        return unless told

        raise ERRORS.fetch(told["end"], Died), told["error"] || "#{told["end"]} in Python"
      end
    end

    def self.class_here?(name)
      Object.const_defined?(name) && Object.const_get(name).respond_to?(:get_sidekiq_options)
    rescue NameError # `add` is a class for Python, and no constant for Ruby
      false
    end

    # Sidekiq calls `dispatch` for each job, and `yield` runs the middleware and the job.
    module Dispatch
      def dispatch(job_hash, queue, jobstr)
        return super unless queue == QUEUE

        name = job_hash["class"]
        job_hash["class"] = UnknownJob.name unless Echoes.class_here?(name)
        super do |job|
          job_hash["class"] = name
          job.extend(NoCode)
          job.pyworkers_echo = job_hash["pyworkers_echo"]
          yield job
        end
      end
    end

    unless Sidekiq::Processor.private_method_defined?(:dispatch) || Sidekiq::Processor.method_defined?(:dispatch)
      raise "pyworkers_echoes.rb does not know Sidekiq #{Sidekiq::VERSION}: look for a newer one"
    end
    Sidekiq::Processor.prepend(Dispatch)
  end
end
