# frozen_string_literal: true

# In a Rails application: app/sidekiq/billing/invoice_job.rb
#
# The class has no code: it says where the job goes and how often it is retried. The code is in Python, registered
# under this class's name. No Ruby process may work the queue.
module Billing
  class InvoiceJob
    include Sidekiq::Job
    sidekiq_options queue: "billing", retry: 5

    def perform(order_id, options)
      raise NotImplementedError, "runs in Python: take the queue billing out of Sidekiq's queues"
    end
  end
end
