# frozen_string_literal: true

# Serves the real Sidekiq Web on a free port of 127.0.0.1, and prints {"port":N} when it does. TERM ends it.
#
#   ruby web.rb [URL|PORT]
require_relative "connect"

connect!(ARGV)
require "rack"
require "rack/handler/webrick"
require "securerandom"
require "sidekiq/web"
quieten

app = Rack::Builder.app do
  use Rack::Session::Cookie, secret: SecureRandom.hex(32), same_site: true
  run Sidekiq::Web
end

quiet = WEBrick::Log.new($stderr, WEBrick::Log::WARN)
Rack::Handler::WEBrick.run(app, Host: "127.0.0.1", Port: 0, Logger: quiet, AccessLog: []) do |server|
  trap("TERM") { server.shutdown }
  emit("port" => server.config[:Port])
  $stdout.flush
end
