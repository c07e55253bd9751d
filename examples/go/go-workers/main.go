// Enqueues jobs for Python with github.com/jrallison/go-workers. REDIS_ADDR names the server.
package main

import (
	"fmt"
	"log"
	"os"

	workers "github.com/jrallison/go-workers"
)

func main() {
	server := os.Getenv("REDIS_ADDR")
	if server == "" {
		server = "localhost:6379"
	}
	// A producer needs a process name too, though nothing is called after it.
	workers.Configure(map[string]string{"server": server, "database": "0", "pool": "5", "process": "producer"})

	// Without Retry this library leaves the field `retry` out, and the Python job's own option counts.
	jid, err := workers.Enqueue("billing", "Billing::InvoiceJob", []interface{}{42, map[string]bool{"pdf": true}})
	report(jid, err)

	jid, err = workers.EnqueueIn("billing", "Billing::InvoiceJob", 2, []interface{}{43, map[string]bool{}})
	report(jid, err)

	options := workers.EnqueueOptions{Retry: true} // 25 times at most, which is Python's max_retries
	jid, err = workers.EnqueueWithOptions("billing", "Billing::InvoiceJob", []interface{}{44, map[string]bool{}}, options)
	report(jid, err)
}

func report(jid string, err error) {
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(jid)
}
