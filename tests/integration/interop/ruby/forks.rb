# frozen_string_literal: true

# Runs programs as forks of this process, which has loaded Sidekiq: to load it takes longer than all else that most of
# them do. Reads a JSON line for each, and answers with its exit code, see forked_ruby.py.
require "json"
require "optparse"
require "securerandom"
require "time"
require "sidekiq"
require "sidekiq/api"

$stdout.sync = true
# A logger that first sees `$stdout` as a file, as in the forks, would close it when `quieten` gives it another one.
Sidekiq.logger
$stdin.each_line do |line|
  asked = JSON.parse(line)
  pid = fork do
    $stdin.reopen(File::NULL)
    $stdout.reopen(asked["out"], "w")
    $stderr.reopen(asked["err"], "w")
    Dir.chdir(asked["folder"])
    ENV.replace(asked["environment"])
    $LOAD_PATH.unshift(*asked["libraries"])
    ARGV.replace(asked["words"])
    $0 = asked["program"]
    load asked["program"]
  end
  status = Process.wait2(pid).last
  puts status.exitstatus || -status.termsig
end
