# frozen_string_literal: true

# A program with the gem sidekiq-status:
#
#   ruby -I gem/lib status.rb REDIS_URL push             prints the jid of a job that the gem knows
#   ruby -I gem/lib status.rb REDIS_URL ask JID          prints what the gem tells of the job
#   ruby -I gem/lib status.rb REDIS_URL stop JID         asks to stop the job, as the gem does since release 4
require_relative "connect"
connect!(ARGV)
require "sidekiq"
require "sidekiq-status"
quieten

Sidekiq.configure_client { |config| Sidekiq::Status.configure_client_middleware config, expiration: 3_600 }

class Shown
  include Sidekiq::Worker
  include Sidekiq::Status::Worker
  sidekiq_options queue: "q"
end

def tell(jid)
  {
    status: Sidekiq::Status.status(jid), complete: Sidekiq::Status.complete?(jid), at: Sidekiq::Status.at(jid),
    total: Sidekiq::Status.total(jid), percent: Sidekiq::Status.pct_complete(jid),
    message: Sidekiq::Status.message(jid), eta: Sidekiq::Status.eta(jid),
    update_time: Sidekiq::Status.update_time(jid), ttl: Sidekiq.redis { |conn| conn.ttl("sidekiq:status:#{jid}") }
  }
end

word, jid = ARGV
case word
when "push" then emit(jid: Shown.perform_async(42))
when "ask" then emit(tell(jid))
when "stop" then emit(stored: Sidekiq::Status.send(:store_for_id, jid, { stop: "true" }))
end
