// Package harness is what both Go programs share: see ../../../peers/harness.py, whose protocol this is.
package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	untimed = 50
	pushers = 16
)

// Push enqueues one job.
type Push func(job string, args []interface{}) error

type request struct {
	Do       string        `json:"do"`
	Job      string        `json:"job"`
	Args     []interface{} `json:"args"`
	Count    int           `json:"count"`
	Clock    *bool         `json:"clock"`
	Numbered bool          `json:"numbered"` // fill: the argument of each job is its number
}

var stamps *os.File

// Address is where Redis is, as host:port.
func Address() string {
	return strings.TrimSuffix(strings.TrimPrefix(os.Getenv("BENCH_REDIS"), "redis://"), "/0")
}

// Threads is how many jobs may run at once.
func Threads() int {
	threads, err := strconv.Atoi(os.Getenv("BENCH_THREADS"))
	Check(err)
	return threads
}

// Open must be called before the first job runs.
func Open() {
	var err error
	stamps, err = os.OpenFile(os.Getenv("BENCH_STAMPS"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	Check(err)
}

// Run does what the job of that name does.
func Run(job string, args []interface{}) {
	switch job {
	case "nap":
		time.Sleep(time.Duration(args[0].(float64) * float64(time.Millisecond)))
	case "stamp":
		now := nowNs()
		fmt.Fprintf(stamps, "%d\n", now-int64(args[0].(float64)))
	}
}

// Serve answers the requests on stdin until it ends.
func Serve(push Push) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r := request{Job: "noop", Args: []interface{}{}, Count: 1}
		Check(json.Unmarshal(lines.Bytes(), &r))
		Check(json.NewEncoder(os.Stdout).Encode(answer(r, push)))
	}
}

func answer(r request, push Push) map[string]interface{} {
	switch r.Do {
	case "stamp":
		sent := int64(0)
		if r.Clock == nil || *r.Clock {
			sent = nowNs()
		}
		Check(push("stamp", []interface{}{sent}))
		return map[string]interface{}{"pushed": 1}
	case "time":
		return map[string]interface{}{"ns": timed(r, push)}
	}
	began := time.Now()
	fill(r, push)
	return map[string]interface{}{"pushed": r.Count, "seconds": time.Since(began).Seconds()}
}

func timed(r request, push Push) []int64 {
	taken := make([]int64, 0, r.Count)
	for i := 0; i < untimed+r.Count; i++ {
		began := time.Now()
		Check(push(r.Job, r.Args))
		if i >= untimed {
			taken = append(taken, time.Since(began).Nanoseconds())
		}
	}
	return taken
}

func fill(r request, push Push) {
	var all sync.WaitGroup
	for pusher := 0; pusher < pushers; pusher++ {
		all.Add(1)
		go func(first int) {
			defer all.Done()
			for i := first; i < r.Count; i += pushers {
				args := r.Args
				if r.Numbered {
					args = []interface{}{i}
				}
				Check(push(r.Job, args))
			}
		}(pusher)
	}
	all.Wait()
}

// nowNs is the clock that programs of every language share.
func nowNs() int64 {
	var now unix.Timespec
	Check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano()
}

// Check ends the program at an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
