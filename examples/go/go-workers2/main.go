// Enqueues jobs for Python with github.com/digitalocean/go-workers2. REDIS_ADDR names the server.
package main

import (
	"fmt"
	"log"
	"os"

	workers "github.com/digitalocean/go-workers2"
)

func main() {
	server := os.Getenv("REDIS_ADDR")
	if server == "" {
		server = "localhost:6379"
	}
	producer, err := workers.NewProducer(workers.Options{ServerAddr: server, ProcessID: "producer"})
	if err != nil {
		log.Fatal(err)
	}

	// Without Retry this library omits the field `retry`, so the option of the Python job counts.
	jid, err := producer.Enqueue("billing", "Billing::InvoiceJob", []interface{}{42, map[string]bool{"pdf": true}})
	report(jid, err)

	jid, err = producer.EnqueueIn("billing", "Billing::InvoiceJob", 2, []interface{}{43, map[string]bool{}})
	report(jid, err)

	options := workers.EnqueueOptions{Retry: true, RetryMax: 5}
	jid, err = producer.EnqueueWithOptions("billing", "Billing::InvoiceJob", []interface{}{44, map[string]bool{}}, options)
	report(jid, err)
}

func report(jid string, err error) {
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(jid)
}
