// The real go-workers (gw1) and go-workers2 (gw2), driven by the interop tests.
//
// Every requirement is pinned by hand, the indirect ones at the versions that go-workers2's own go.mod asks
// for: that file predates module graph pruning, so `go mod tidy` would fetch some four hundred go.mod files
// of things never built here. `go build ./...` needs only what stands below.
module goworkers.test/interop

go 1.19

require (
	github.com/digitalocean/go-workers2 v0.10.4
	github.com/garyburd/redigo v1.6.4
	github.com/jrallison/go-workers v0.0.0-20180112190529-dbf81d0b75bb
)

require (
	github.com/bitly/go-simplejson v0.5.0 // indirect
	github.com/cespare/xxhash/v2 v2.1.1 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/go-redis/redis/v8 v8.4.4 // indirect
	github.com/google/uuid v1.1.4 // indirect
	go.opentelemetry.io/otel v0.15.0 // indirect
)
