# frozen_string_literal: true

# In a Rails application: app/sidekiq/billing/invoice_job.rb
#
# The class has no code. It gives the job its queue and its number of retries. The code is in Python, registered under
# the name of this class. No Ruby process may work the queue.
module Billing
  class InvoiceJob
    include Sidekiq::Job
    sidekiq_options queue: "billing", retry: 5

    def perform(order_id, options)
      raise NotImplementedError, "runs in Python: take the queue billing out of Sidekiq's queues"
    end
  end
end
