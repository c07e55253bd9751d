// Command gw2 drives the real github.com/digitalocean/go-workers2 as a producer or as a worker process.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	workers "github.com/digitalocean/go-workers2"

	"goworkers.test/interop/internal/harness"
)

func main() {
	// The library logs to stdout, which is kept for our JSON lines; one of its loggers is a package variable.
	workers.Logger = logger
	harness.Main(produce, consume)
}

var logger = log.New(os.Stderr, "gw2: ", log.LstdFlags|log.Lmicroseconds)

func options(server harness.Server, namespace, process string, pool int, poll time.Duration) workers.Options {
	return workers.Options{
		ServerAddr:   server.Addr,
		Password:     server.Password,
		Database:     server.Database,
		Namespace:    namespace,
		ProcessID:    process,
		PoolSize:     pool,
		PollInterval: poll,
		Logger:       logger,
	}
}

func produce(p harness.Produce) error {
	producer, err := workers.NewProducer(options(p.Server, p.Namespace, "producer", 1, time.Second))
	if err != nil {
		return err
	}
	return p.Enqueue(func(args interface{}) (string, error) {
		switch {
		case !p.Plain():
			options := workers.EnqueueOptions{
				Retry: p.Retry, RetryCount: p.RetryCount, RetryMax: p.RetryMax, At: p.Due(),
			}
			return producer.EnqueueWithOptions(p.Queue, p.Class, args, options)
		case p.In > 0:
			return producer.EnqueueIn(p.Queue, p.Class, p.In, args)
		case p.At > 0:
			return producer.EnqueueAt(p.Queue, p.Class, time.Unix(0, int64(p.At*1e9)), args)
		}
		return producer.Enqueue(p.Queue, p.Class, args)
	})
}

func consume(c harness.Consume) error {
	poll := time.Duration(c.PollSeconds) * time.Second
	settings, err := beat(options(c.Server, c.Namespace, c.Process, 2*c.Concurrency+3, poll), c)
	if err != nil {
		return err
	}
	manager, err := workers.NewManager(settings)
	if err != nil {
		return err
	}

	record := func(list string, message *workers.Msg) error {
		// The payload's bytes as they were popped.
		return manager.GetRedisClient().RPush(context.Background(), list, message.OriginalJson()).Err()
	}

	manager.AddWorker(c.Queue, c.Concurrency, func(message *workers.Msg) error {
		time.Sleep(c.Sleep)
		defer c.Runs.Count()
		return record(harness.RanKey, message)
	})

	if c.Failing != "" {
		manager.AddWorker(c.Failing, c.Concurrency, func(message *workers.Msg) error {
			defer c.Runs.Count()
			if err := record(harness.RaisedKey, message); err != nil {
				return err
			}
			return errors.New("gw2 <failed> on purpose")
		})
	}

	manager.AddBeforeStartHooks(func() {
		harness.Print(map[string]interface{}{"ready": true, "pid": os.Getpid()})
	})
	go func() {
		<-c.Runs.Zero
		manager.Stop()
	}()
	manager.Run() // returns after Stop, which the library's own handler calls on TERM, INT and USR1
	harness.Print(map[string]interface{}{"stopped": true})
	return nil
}
