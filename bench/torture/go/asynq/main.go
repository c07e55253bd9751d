// Command asynq is github.com/hibiken/asynq: `asynq work`, or the client.
package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hibiken/asynq"

	"goworkers.test/torture/internal/notes"
)

const name = "torture"

func main() {
	redis := asynq.RedisClientOpt{Addr: notes.Address()}
	if notes.IsWorker() {
		work(redis)
		return
	}
	client := asynq.NewClient(redis)
	notes.Serve(func(job notes.Job) error {
		payload, err := json.Marshal(job)
		if err != nil {
			return err
		}
		var options []asynq.Option
		if at, later := job.Due(); later {
			options = append(options, asynq.ProcessAt(at))
		}
		_, err = client.Enqueue(asynq.NewTask(name, payload), options...)
		return err
	})
}

func work(redis asynq.RedisClientOpt) {
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:    notes.Threads(),
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return notes.RetryDelay() },
	})
	notes.Check(server.Run(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		var job notes.Job
		if err := json.Unmarshal(task.Payload(), &job); err != nil {
			return err
		}
		return notes.Run(job)
	})))
}
