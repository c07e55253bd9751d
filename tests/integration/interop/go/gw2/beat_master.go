//go:build master

package main

import (
	workers "github.com/digitalocean/go-workers2"

	"goworkers.test/interop/internal/harness"
)

// beat switches the heartbeat on, which only the library's master branch has.
func beat(options workers.Options, c harness.Consume) (workers.Options, error) {
	if c.BeatEvery == 0 {
		return options, nil
	}
	options.Heartbeat = &workers.HeartbeatOptions{Interval: c.BeatEvery, HeartbeatTTL: c.DeadAfter}
	if c.ActiveManagers > 0 {
		options.Heartbeat.PrioritizedManager = &workers.PrioritizedManagerOptions{TotalActiveManagers: c.ActiveManagers}
	}
	return options, nil
}
