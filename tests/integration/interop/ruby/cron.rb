# frozen_string_literal: true

# Writes schedules with the real gem sidekiq-cron: ruby cron.rb URL
require_relative "connect"
connect!(ARGV)
require "sidekiq"
require "sidekiq-cron"
quieten

made = Sidekiq::Cron::Job.load_from_hash(
  "nightly" => { "class" => "Report::NightlyJob", "cron" => "0 3 * * * Europe/Berlin", "queue" => "reports",
                 "args" => ["eu", 7] },
  "often" => { "class" => "OftenJob", "cron" => "*/5 * * * *", "status" => "disabled" }
)
emit("errors" => made)
