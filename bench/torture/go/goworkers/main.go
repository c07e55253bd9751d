// Command goworkers is github.com/jrallison/go-workers: `goworkers work`, or the client.
package main

import (
	"encoding/json"
	"strconv"

	workers "github.com/jrallison/go-workers"

	"goworkers.test/torture/internal/notes"
)

const queue = "default"

func main() {
	workers.Configure(map[string]string{
		"server": notes.Address(), "process": notes.Name(), "pool": strconv.Itoa(2*notes.Threads() + 3), "database": "0",
		"poll_interval": "1",
	})
	if notes.IsWorker() {
		workers.Process(queue, work, notes.Threads())
		workers.Run()
		return
	}
	notes.Serve(func(job notes.Job) error {
		options := workers.EnqueueOptions{Retry: true, At: job.At}
		_, err := workers.EnqueueWithOptions(queue, "Torture", []notes.Job{job}, options)
		return err
	})
}

// work panics at an error: so its middleware knows that the job has failed.
func work(message *workers.Msg) {
	var jobs []notes.Job
	if err := json.Unmarshal([]byte(message.Args().ToJson()), &jobs); err != nil {
		panic(err)
	}
	if err := notes.Run(jobs[0]); err != nil {
		panic(err)
	}
}
