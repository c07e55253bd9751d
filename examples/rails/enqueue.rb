# frozen_string_literal: true

# Enqueues jobs for Python, from plain Ruby or Rails. REDIS_URL names the server.
require "sidekiq"
require_relative "invoice_job"

# With the class, as usual in Rails:
puts Billing::InvoiceJob.perform_async(42, { "pdf" => true })
puts Billing::InvoiceJob.perform_in(2, 43, { "pdf" => false })
puts Billing::InvoiceJob.set(retry: false).perform_async(44, {})

# Without a class: no Ruby code for the job is needed.
puts Sidekiq::Client.push(
  "class" => "Billing::InvoiceJob", "queue" => "billing", "retry" => 5, "args" => [45, { "pdf" => true }]
)
