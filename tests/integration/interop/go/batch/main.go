// Command batch opens and fills a batch of pyworkers with plain commands, as docs/batches.md says.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/garyburd/redigo/redis"
)

const life = 90 * 24 * time.Hour

type fields map[string]interface{}

// step sends commands as one transaction.
func step(server redis.Conn, commands ...[]interface{}) error {
	if err := server.Send("MULTI"); err != nil {
		return err
	}
	for _, words := range commands {
		if err := server.Send(words[0].(string), words[1:]...); err != nil {
			return err
		}
	}
	_, err := server.Do("EXEC")
	return err
}

func command(words ...interface{}) []interface{} { return words }

func text(value interface{}) string {
	written, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(written)
}

func fill(server redis.Conn, bid string) error {
	now := float64(time.Now().UnixNano()) / 1e9
	record := "pyworkers:batch:" + bid
	report := text(fields{"class": "Report", "args": []string{bid}, "jid": "report", "queue": "reports", "retry": true,
		"created_at": now})
	err := step(server,
		command("HSET", record, "v", 1, "name", "nightly", "at", now, "total", 0, "holds", 1, "retain", 86400,
			"success", report, "success:queue", "reports", "to", text([]string{"reports"})),
		command("EXPIRE", record, int(life.Seconds())),
		command("ZADD", "pyworkers:batches", now+life.Seconds(), bid))
	for number := 0; number < 3 && err == nil; number++ {
		ours := fields{"v": 1, "needs": []string{"batch"}, "batch": fields{"id": bid, "to": []string{"reports"}}}
		member := text(fields{"class": "Member", "args": []int{number}, "jid": fmt.Sprint("member", number), "queue": "q",
			"retry": true, "created_at": now, "enqueued_at": now, "pyworkers": ours})
		commands := [][]interface{}{command("HINCRBY", record, "total", 1), command("SADD", "queues", "q"),
			command("LPUSH", "queue:q", member)}
		if number == 2 {
			commands = append(commands, command("HINCRBY", record, "holds", -1))
		}
		err = step(server, commands...)
	}
	return err
}

func main() {
	server, err := redis.DialURL(os.Args[1])
	if err == nil {
		err = fill(server, os.Args[2])
	}
	if err != nil {
		fmt.Println(text(fields{"error": err.Error()}))
		os.Exit(1)
	}
}
