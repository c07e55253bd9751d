// Command goworkers is github.com/jrallison/go-workers: `goworkers work`, or the client.
package main

import (
	"io"
	"log"
	"os"
	"strconv"
	"strings"

	workers "github.com/jrallison/go-workers"

	"goworkers.test/bench/internal/harness"
)

func main() {
	// It knows no levels and logs two lines a job: at the level of warnings that is none.
	workers.Logger = log.New(io.Discard, "", 0)
	if len(os.Args) > 1 && os.Args[1] == "work" {
		work()
	} else {
		configure(2)
		harness.Serve(push)
	}
}

func configure(pool int) {
	workers.Configure(map[string]string{
		"server": harness.Address(), "process": "bench", "pool": strconv.Itoa(pool), "database": "0",
	})
}

func work() {
	harness.Open()
	configure(2*harness.Threads() + 3)
	workers.Process("default", func(message *workers.Msg) {
		class, err := message.Get("class").String()
		harness.Check(err)
		args, err := message.Args().Array()
		harness.Check(err)
		harness.Run(strings.ToLower(class), floats(args))
	}, harness.Threads())
	workers.Run()
}

// floats makes of its json.Numbers what encoding/json makes of numbers.
func floats(args []interface{}) []interface{} {
	for i, arg := range args {
		if number, ok := arg.(interface{ Float64() (float64, error) }); ok {
			value, err := number.Float64()
			harness.Check(err)
			args[i] = value
		}
	}
	return args
}

func push(job string, args []interface{}) error {
	_, err := workers.Enqueue("default", strings.ToUpper(job[:1])+job[1:], args)
	return err
}
