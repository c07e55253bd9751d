// Command asynq is github.com/hibiken/asynq: `asynq work`, or the client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"goworkers.test/bench/internal/harness"
)

const (
	day      = 24 * time.Hour
	together = 100 // jobs of a group, see ../../entries.py
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
		name, options := options(job, args)
		_, err = client.Enqueue(asynq.NewTask(name, payload), options...)
		return err
	})
}

// options tells the type of a job, and the options of its push.
func options(job string, args []interface{}) (string, []asynq.Option) {
	switch job {
	case "unique":
		return "noop", []asynq.Option{asynq.Unique(day)}
	case "grouped":
		first := args[0].(int) / together * together
		return "noop", []asynq.Option{asynq.Group(fmt.Sprintf("user:%d", first))}
	case "kept", "slow", "long":
		return job, []asynq.Option{asynq.Retention(day)}
	}
	return job, nil
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
		return keep(task, args)
	})))
}

// keep stores the result of a job that has one: see ../../peers/pyworkers_entries.py.
func keep(task *asynq.Task, args []interface{}) error {
	switch task.Type() {
	case "slow":
		time.Sleep(100 * time.Millisecond)
	case "long":
		args = []interface{}{strings.Repeat("x", 100)}
	case "kept":
	default:
		return nil
	}
	return json.NewEncoder(task.ResultWriter()).Encode(args[0])
}
