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
	// go-workers requires a process name also from a producer, which does not use it.
	workers.Configure(map[string]string{"server": server, "database": "0", "pool": "5", "process": "producer"})

	// Without Retry this library omits the field `retry`, so the option of the Python job counts.
	jid, err := workers.Enqueue("billing", "Billing::InvoiceJob", []interface{}{42, map[string]bool{"pdf": true}})
	report(jid, err)

	jid, err = workers.EnqueueIn("billing", "Billing::InvoiceJob", 2, []interface{}{43, map[string]bool{}})
	report(jid, err)

	options := workers.EnqueueOptions{Retry: true} // at most 25 times: max_retries of the Python side
	jid, err = workers.EnqueueWithOptions("billing", "Billing::InvoiceJob", []interface{}{44, map[string]bool{}}, options)
	report(jid, err)
}

func report(jid string, err error) {
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(jid)
}
