// Command gw1 drives the real github.com/jrallison/go-workers as a producer or as a worker process.
package main

import (
	"errors"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/garyburd/redigo/redis"
	workers "github.com/jrallison/go-workers"

	"goworkers.test/interop/internal/harness"
)

func main() {
	// The library logs to stdout, which is kept for our JSON lines.
	workers.Logger = log.New(os.Stderr, "gw1: ", log.LstdFlags|log.Lmicroseconds)
	harness.Main(produce, consume)
}

func configure(server harness.Server, namespace, process string, pool, poll int) {
	workers.Configure(map[string]string{
		"server":        server.Addr,
		"password":      server.Password,
		"database":      strconv.Itoa(server.Database),
		"namespace":     namespace,
		"process":       process,
		"pool":          strconv.Itoa(pool),
		"poll_interval": strconv.Itoa(poll),
	})
}

func produce(p harness.Produce) error {
	if p.RetryMax != 0 {
		return errors.New("go-workers has no retry_max; only gw2 does")
	}
	configure(p.Server, p.Namespace, "producer", 1, 1)
	return p.Enqueue(func(args interface{}) (string, error) {
		switch {
		case !p.Plain():
			options := workers.EnqueueOptions{Retry: p.Retry, RetryCount: p.RetryCount, At: p.Due()}
			return workers.EnqueueWithOptions(p.Queue, p.Class, args, options)
		case p.In > 0:
			return workers.EnqueueIn(p.Queue, p.Class, p.In, args)
		case p.At > 0:
			return workers.EnqueueAt(p.Queue, p.Class, time.Unix(0, int64(p.At*1e9)), args)
		}
		return workers.Enqueue(p.Queue, p.Class, args)
	})
}

func consume(c harness.Consume) error {
	configure(c.Server, c.Namespace, c.Process, 2*c.Concurrency+3, c.PollSeconds)

	workers.Process(c.Queue, func(message *workers.Msg) {
		time.Sleep(c.Sleep)
		record(harness.RanKey, message)
		c.Runs.Count()
	}, c.Concurrency)

	if c.Failing != "" {
		workers.Process(c.Failing, func(message *workers.Msg) {
			record(harness.RaisedKey, message)
			// The settled failure is what a test waits for, so it must not be cut off by the stop:
			// Quit waits for running jobs, and the retry middleware is part of the run.
			c.Runs.Count()
			panic("gw1 <failed> on purpose")
		}, c.Concurrency)
	}

	workers.BeforeStart(func() { harness.Print(map[string]interface{}{"ready": true, "pid": os.Getpid()}) })
	go func() {
		<-c.Runs.Zero
		workers.Quit()
	}()
	workers.Run() // returns after Quit, which the library's own handler calls on TERM, INT and USR1
	harness.Print(map[string]interface{}{"stopped": true})
	return nil
}

// record keeps the payload's bytes as they were popped. It dials through the library's pool.
func record(list string, message *workers.Msg) {
	conn := workers.Config.Pool.Get()
	defer conn.Close()
	if _, err := redis.Int(conn.Do("rpush", list, message.OriginalJson())); err != nil {
		log.Fatalf("gw1: cannot record a run: %v", err)
	}
}
