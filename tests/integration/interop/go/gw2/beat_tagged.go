//go:build !master

package main

import (
	"errors"

	workers "github.com/digitalocean/go-workers2"

	"goworkers.test/interop/internal/harness"
)

func beat(options workers.Options, c harness.Consume) (workers.Options, error) {
	if c.BeatEvery > 0 {
		return options, errors.New("no released version of go-workers2 has a heartbeat")
	}
	return options, nil
}
