# frozen_string_literal: true

# The process of worker.rb that acknowledges echoes too, without the gems of batches and locks: every Sidekiq can run it.
# Death handlers append to the list `died`.
require_relative "worker"
require_relative "../../../../examples/rails/pyworkers_echoes"

Sidekiq.configure_server do |config|
  config.death_handlers << lambda { |job, error|
    told = { jid: job["jid"], class: job["class"], error: error.class.name, message: error.message }
    Sidekiq.redis { |conn| conn.rpush("died", JSON.generate(told)) }
  }
end
