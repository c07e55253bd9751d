# frozen_string_literal: true

# With the real gem sidekiq-cron:
#
#   ruby cron.rb URL write                  writes schedules
#   ruby cron.rb URL next CRON...           prints the next times of each expression, null for one that the gem refuses
#   TZ=... ruby cron.rb URL last NAME       prints when a schedule fired last, to its knowledge
require_relative "connect"
connect!(ARGV)
require "sidekiq"
require "sidekiq-cron"
quieten

word, *words = ARGV
case word
when "write"
  made = Sidekiq::Cron::Job.load_from_hash(
    "nightly" => { "class" => "Report::NightlyJob", "cron" => "0 3 * * * Europe/Berlin", "queue" => "reports",
                   "args" => ["eu", 7] },
    "often" => { "class" => "OftenJob", "cron" => "*/5 * * * * UTC", "status" => "disabled" },
    "local" => { "class" => "LocalJob", "cron" => "0 3 * * *" },
    "spoken" => { "class" => "SpokenJob", "cron" => "every day at five" },
    "rails" => { "class" => "RailsJob", "cron" => "0 4 * * * UTC", "active_job" => true,
                 "queue_name_prefix" => "prefix", "queue" => "mail" },
    "dated" => { "class" => "DatedJob", "cron" => "0 5 * * * UTC", "date_as_argument" => true },
    "keywords" => { "class" => "KeywordsJob", "cron" => "0 6 * * * UTC", "args" => { "region" => "eu" } }
  )
  emit("errors" => made)
when "next"
  from = Time.utc(2026, 1, 10, 12)
  emit("next" => words.map do |text|
    cron = Fugit::Cron.parse(text)
    cron && (1..12).inject([from]) { |all, _| all << cron.next_time(all.last) }.drop(1).map(&:to_i)
  end)
when "last"
  emit("last" => Sidekiq::Cron::Job.find(words.first).last_time(Time.utc(2026, 1, 10, 12)).to_i)
end
