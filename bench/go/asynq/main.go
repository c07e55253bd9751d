// Command asynq is github.com/hibiken/asynq: `asynq work`, or the client.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/hibiken/asynq"

	"goworkers.test/bench/internal/harness"
)

func main() {
	redis := asynq.RedisClientOpt{Addr: harness.Address()}
	if len(os.Args) > 1 && os.Args[1] == "work" {
		work(redis)
		return
	}
	client := asynq.NewClient(redis)
	harness.Serve(func(job string, args []interface{}) error {
		payload, err := json.Marshal(args)
		if err != nil {
			return err
		}
		_, err = client.Enqueue(asynq.NewTask(job, payload))
		return err
	})
}

func work(redis asynq.RedisClientOpt) {
	harness.Open()
	server := asynq.NewServer(redis, asynq.Config{Concurrency: harness.Threads(), LogLevel: asynq.WarnLevel})
	harness.Check(server.Run(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		var args []interface{}
		if err := json.Unmarshal(task.Payload(), &args); err != nil {
			return err
		}
		harness.Run(task.Type(), args)
		return nil
	})))
}
