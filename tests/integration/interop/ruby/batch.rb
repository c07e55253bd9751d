# frozen_string_literal: true

# Opens and fills a batch of pyworkers with plain commands, as docs/batches.md says: ruby batch.rb URL BID
require "json"
require "sidekiq"
require_relative "connect"

LIFE_S = 90 * 86_400

connect!(ARGV)
quieten
bid = ARGV.fetch(0)
record = "pyworkers:batch:#{bid}"
now = Time.now.to_f

def multi(&block)
  Sidekiq.redis { |conn| conn.multi(&block) }
end

report = { class: "Report", args: [bid], jid: "report", queue: "reports", retry: true, created_at: now }
multi do |step|
  step.hset(record, "v", 1, "name", "nightly", "at", now, "total", 0, "holds", 1, "retain", 86_400,
            "success", JSON.generate(report), "success:queue", "reports", "to", JSON.generate(["reports"]))
  step.expire(record, LIFE_S)
  step.zadd("pyworkers:batches", now + LIFE_S, bid)
end

3.times do |number|
  ours = { v: 1, needs: ["batch"], batch: { id: bid, to: ["reports"] } }
  member = { class: "Member", args: [number], jid: "member#{number}", queue: "q", retry: true, created_at: now,
             enqueued_at: now, pyworkers: ours }
  multi do |step|
    step.hincrby(record, "total", 1)
    step.sadd("queues", ["q"])
    step.lpush("queue:q", JSON.generate(member))
    step.hincrby(record, "holds", -1) if number == 2
  end
end
