// Package notes is what both Go programs share: see ../../../apps/notes.py, whose protocol and ledger these are.
package notes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Job is a line of the harness.
type Job struct {
	ID           string  `json:"id"`
	Milliseconds int     `json:"ms"`
	Failures     int     `json:"failures"`
	At           float64 `json:"at"` // 0: at once
}

// Due is when it is to run, if that is later.
func (job Job) Due() (time.Time, bool) {
	return time.UnixMicro(int64(job.At * 1e6)), job.At > 0
}

// Address is where Redis is, as host:port.
func Address() string {
	return strings.TrimSuffix(strings.TrimPrefix(os.Getenv("TORTURE_REDIS"), "redis://"), "/0")
}

// Name is that of the worker, the same after each start.
func Name() string { return os.Getenv("TORTURE_NAME") }

// IsWorker tells whether this is a worker, not the client.
func IsWorker() bool { return len(os.Args) > 1 && os.Args[1] == "work" }

// Threads is how many jobs may run at once.
func Threads() int { return number("TORTURE_THREADS") }

// RetryDelay is the time from a failure to the next run.
func RetryDelay() time.Duration { return time.Duration(number("TORTURE_RETRY_S")) * time.Second }

func number(variable string) int {
	value, err := strconv.Atoi(os.Getenv(variable))
	Check(err)
	return value
}

// Run is the job.
func Run(job Job) error {
	note("begin", job.ID)
	time.Sleep(time.Duration(job.Milliseconds) * time.Millisecond)
	if job.Failures > 0 && isFirstFailure(job.ID) {
		note("fail", job.ID)
		return errors.New("it is told to fail once")
	}
	note("end", job.ID)
	return nil
}

// note is one write, so that the kernel has the line whole.
func note(word, id string) {
	ledger, err := os.OpenFile(os.Getenv("TORTURE_LEDGER"), os.O_WRONLY|os.O_APPEND, 0)
	Check(err)
	defer ledger.Close()
	now := float64(time.Now().UnixMicro()) / 1e6
	_, err = fmt.Fprintf(ledger, "%s %.6f %s %s %d\n", word, now, id, os.Getenv("TORTURE_LIFE"), os.Getpid())
	Check(err)
}

func isFirstFailure(id string) bool {
	marker, err := os.OpenFile(filepath.Join(os.Getenv("TORTURE_FAILED"), id), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	return marker.Close() == nil
}

// Serve pushes what it reads from stdin until that ends.
func Serve(push func(Job) error) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var job Job
		Check(json.Unmarshal(lines.Bytes(), &job))
		answer := map[string]interface{}{"pushed": true}
		if err := push(job); err != nil {
			answer = map[string]interface{}{"error": err.Error()}
			fmt.Fprintln(os.Stderr, job.ID, err)
		}
		Check(json.NewEncoder(os.Stdout).Encode(answer))
	}
}

// Check ends the program at an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
