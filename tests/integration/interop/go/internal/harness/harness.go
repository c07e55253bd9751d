// Package harness is what gw1 and gw2 share: their command line and the JSON lines they print.
// It never talks to Redis: everything on the wire must be written by the library under test.
package harness

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The lists a consumer appends each payload to, never under a namespace: the tests read them.
const (
	RanKey    = "ran"
	RaisedKey = "raised"
)

// Server is what both libraries want in pieces rather than as a URL.
type Server struct {
	Addr     string
	Password string
	Database int
}

// Produce holds the flags of the produce command.
type Produce struct {
	Server     Server
	Namespace  string
	Queue      string
	Class      string
	Count      int
	Args       string
	In         float64
	At         float64
	Retry      bool
	RetryCount int
	RetryMax   int
}

// Consume holds the flags of the consume command.
type Consume struct {
	Server      Server
	Namespace   string
	Process     string
	Queue       string
	Failing     string
	Concurrency int
	PollSeconds int
	Sleep       time.Duration
	Runs        *Countdown
	// Of the master branch of go-workers2.
	BeatEvery      time.Duration
	DeadAfter      time.Duration
	ActiveManagers int
}

// Main reads `PROGRAM [URL|PORT] produce|consume FLAGS` and runs the command.
func Main(produce func(Produce) error, consume func(Consume) error) {
	server, words, err := target(os.Args[1:])
	if err == nil {
		err = dispatch(server, words, produce, consume)
	}
	if err != nil {
		Print(map[string]interface{}{"error": err.Error()})
		os.Exit(1)
	}
}

func dispatch(server Server, words []string, produce func(Produce) error, consume func(Consume) error) error {
	if len(words) == 0 {
		return fmt.Errorf("usage: [URL|PORT] produce|consume FLAGS")
	}
	switch words[0] {
	case "produce":
		return produce(produceFlags(server, words[1:]))
	case "consume":
		repeatTerm()
		return consume(consumeFlags(server, words[1:]))
	}
	return fmt.Errorf("no command %q: produce or consume", words[0])
}

// repeatTerm sends a received TERM again, until the program has ended. Both libraries listen for signals only after
// they have begun to work: without this, a test that saw the first work done could end the program as a signal ends it.
func repeatTerm() {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGTERM)
	go func() {
		for range received {
			time.Sleep(200 * time.Millisecond)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}
	}()
}

// target takes the address from the first argument if that looks like one, else from REDIS_URL.
func target(args []string) (Server, []string, error) {
	address := os.Getenv("REDIS_URL")
	if len(args) > 0 {
		if _, err := strconv.Atoi(args[0]); err == nil || strings.Contains(args[0], "://") {
			address, args = args[0], args[1:]
		}
	}
	if address == "" {
		// A default of localhost:6379 could be somebody's database.
		return Server{}, nil, fmt.Errorf("give a Redis URL or port first, or set REDIS_URL")
	}
	if _, err := strconv.Atoi(address); err == nil {
		address = "redis://127.0.0.1:" + address
	}
	server, err := parse(address)
	return server, args, err
}

func parse(address string) (Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Server{}, err
	}
	if u.Scheme != "redis" || u.Host == "" {
		return Server{}, fmt.Errorf("%q: go-workers only speaks redis:// over TCP", address)
	}
	server := Server{Addr: u.Host}
	if u.Port() == "" {
		server.Addr += ":6379"
	}
	server.Password, _ = u.User.Password()
	if path := strings.Trim(u.Path, "/"); path != "" {
		server.Database, err = strconv.Atoi(path)
	}
	return server, err
}

func produceFlags(server Server, words []string) Produce {
	p := Produce{Server: server}
	f := flag.NewFlagSet("produce", flag.ExitOnError)
	f.StringVar(&p.Namespace, "namespace", "", "key prefix, without its colon")
	f.StringVar(&p.Queue, "queue", "default", "queue")
	f.StringVar(&p.Class, "class", "GoJob", "class")
	f.IntVar(&p.Count, "count", 1, "how many jobs")
	f.StringVar(&p.Args, "args", "", "JSON array, the same for all jobs (default: [0], [1], ...)")
	f.Float64Var(&p.In, "in", 0, "run this many seconds from now")
	f.Float64Var(&p.At, "at", 0, "run at this epoch second")
	f.BoolVar(&p.Retry, "retry", false, "retry if it fails")
	f.IntVar(&p.RetryCount, "retry-count", 0, "retries already made, as the library's option of that name")
	f.IntVar(&p.RetryMax, "retry-max", 0, "limit of retries (gw2 only)")
	_ = f.Parse(words)
	return p
}

func consumeFlags(server Server, words []string) Consume {
	c := Consume{Server: server}
	var stopAfter int
	f := flag.NewFlagSet("consume", flag.ExitOnError)
	f.StringVar(&c.Namespace, "namespace", "", "key prefix, without its colon")
	f.StringVar(&c.Process, "process", "1", "process id: names the in-progress lists")
	f.StringVar(&c.Queue, "queue", "default", "queue whose jobs succeed")
	f.StringVar(&c.Failing, "failing", "", "queue whose jobs always fail (default: none)")
	f.IntVar(&c.Concurrency, "concurrency", 1, "workers a queue")
	f.IntVar(&c.PollSeconds, "poll", 1, "seconds between two looks at schedule and goretry")
	f.DurationVar(&c.Sleep, "sleep", 0, "how long each job takes")
	f.DurationVar(&c.BeatEvery, "beat-every", 0, "interval of the heartbeat (gw2master only; 0: none)")
	f.DurationVar(&c.DeadAfter, "dead-after", time.Minute, "age of a beat from which its process counts as dead")
	f.IntVar(&c.ActiveManagers, "active-managers", 0, "how many of the processes that beat shall work (0: all)")
	f.IntVar(&stopAfter, "stop-after", 0, "stop once this many jobs ran, failed ones included (0: at a signal)")
	_ = f.Parse(words)
	c.Runs = &Countdown{left: int64(stopAfter), Zero: make(chan struct{})}
	return c
}

// Countdown closes Zero when the last wanted run was counted. With no limit it never does.
type Countdown struct {
	left int64
	Zero chan struct{}
}

// Count counts one run; safe from any goroutine.
func (c *Countdown) Count() {
	if atomic.AddInt64(&c.left, -1) == 0 {
		close(c.Zero)
	}
}

// JobArgs are the arguments of the i-th job.
func (p Produce) JobArgs(i int) (interface{}, error) {
	if p.Args == "" {
		return []int{i}, nil
	}
	// UseNumber: a number must reach the library as its text, not rounded to a double by this program.
	decoder := json.NewDecoder(bytes.NewReader([]byte(p.Args)))
	decoder.UseNumber()
	var args []interface{}
	err := decoder.Decode(&args)
	return args, err
}

// Due is when the jobs shall run, as epoch seconds; 0 is at once.
func (p Produce) Due() float64 {
	if p.In > 0 {
		return float64(time.Now().UnixNano())/1e9 + p.In
	}
	return p.At
}

// Plain tells that no option was given, so that the library's simplest call is the one to test.
func (p Produce) Plain() bool {
	return !p.Retry && p.RetryCount == 0 && p.RetryMax == 0
}

// Print writes one JSON line to stdout.
func Print(line map[string]interface{}) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err)
	}
}

// Enqueue calls push for each job and prints the jids as one line.
func (p Produce) Enqueue(push func(args interface{}) (string, error)) error {
	jids := make([]string, 0, p.Count)
	for i := 0; i < p.Count; i++ {
		args, err := p.JobArgs(i)
		if err != nil {
			return err
		}
		jid, err := push(args)
		if err != nil {
			return err
		}
		jids = append(jids, jid)
	}
	Print(map[string]interface{}{"count": len(jids), "jids": jids})
	return nil
}
