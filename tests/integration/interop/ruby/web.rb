# frozen_string_literal: true

# Serves the real Sidekiq Web on a free port of 127.0.0.1, and prints {"port":N} when it does. TERM ends it.
#
#   ruby web.rb [URL|PORT]
require_relative "connect"

connect!(ARGV)
require "sidekiq/web"
require "stringio"
require "webrick"
quieten

SESSION = {} # there is one browser. Sidekiq before 8 keeps the token of its forms there

# From WEBrick to Rack and back. Rack 2 can do that and has sessions, Rack 3 has neither.
def answer(request, response)
  environment = request.meta_vars.merge(
    "SCRIPT_NAME" => "", "rack.url_scheme" => "http", "rack.session" => SESSION, "rack.errors" => $stderr,
    "rack.input" => StringIO.new((request.body || "").b), "rack.version" => [1, 3], "rack.multithread" => true,
    "rack.multiprocess" => false, "rack.run_once" => false
  )
  response.status, headers, body = Sidekiq::Web.call(environment)
  headers.each { |name, value| response[name] = value }
  response.body = +""
  body.each { |part| response.body << part }
ensure
  body.close if body.respond_to?(:close)
end

quiet = WEBrick::Log.new($stderr, WEBrick::Log::WARN)
server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: 0, Logger: quiet, AccessLog: [])
server.mount_proc("/") { |request, response| answer(request, response) }
trap("TERM") { server.shutdown }
emit("port" => server.config[:Port])
$stdout.flush
server.start
