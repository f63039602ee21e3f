// franz-go in a group of KIP-848: two members share partitions, one leaves, the other goes on where it had been.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitions = 4
	each       = 25
)

var (
	bootstrap = strings.Split(os.Args[1], ",")
	name      = os.Args[2]
	ctx       context.Context
)

// A member notes what it reads and commits it.
type member struct {
	*kgo.Client
	lock  sync.Mutex
	owned map[int32]bool
	read  []string
	done  chan error
}

func main() {
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	brokers, err := strconv.Atoi(os.Args[3])
	must(err)
	plain := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer plain.Close()
	create(plain, int16(brokers))

	first := join()
	until("all partitions of the only member", func() bool { return len(first.owns()) == partitions })
	written := produce(plain, "before")
	until("all offsets committed", func() bool { return committed(plain, each) })

	second := join()
	until("two partitions each", func() bool { return len(first.owns()) == 2 && len(second.owns()) == 2 })
	written = append(written, produce(plain, "between")...)
	until("all offsets of two members committed", func() bool { return committed(plain, 2*each) })

	must(second.LeaveGroupContext(ctx))
	second.stop()
	again := join()
	until("the partitions of a member that took its place", func() bool { return len(again.owns()) == 2 })
	written = append(written, produce(plain, "after")...)
	until("all offsets committed at the end", func() bool { return committed(plain, 3*each) })
	again.stop()
	first.stop()

	read := slices.Concat(first.read, second.read, again.read)
	slices.Sort(read)
	slices.Sort(written)
	if !slices.Equal(read, written) {
		must(fmt.Errorf("read %d values, written %d: they differ", len(read), len(written)))
	}
	fmt.Println("all well")
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap...))...)
	must(err)
	return made
}

func join(options ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}, done: make(chan error, 1)}
	m.Client = client(append(options,
		kgo.ConsumerGroup(name),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.note(true)),
		kgo.OnPartitionsRevoked(m.note(false)),
		kgo.OnPartitionsLost(m.note(false)),
	)...)
	go func() { m.done <- m.consume() }()
	return m
}

func (m *member) note(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partition := range given[name] {
			if owned {
				m.owned[partition] = true
			} else {
				delete(m.owned, partition)
			}
		}
	}
}

func (m *member) owns() map[int32]bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	found := map[int32]bool{}
	for partition := range m.owned {
		found[partition] = true
	}
	return found
}

// consume reads and commits until the client is closed.
func (m *member) consume() error {
	for {
		fetches := m.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		records := fetches.Records()
		if len(records) > 0 {
			if err := m.CommitRecords(ctx, records...); err != nil {
				return err
			}
		}
		for _, record := range records {
			m.read = append(m.read, string(record.Value))
		}
		m.AllowRebalance()
	}
}

func (m *member) stop() {
	m.CloseAllowingRebalance()
	must(<-m.done)
}

func create(plain *kgo.Client, brokers int16) {
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, brokers
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, plain)
	must(err)
	must(kerr.ErrorForCode(answer.Topics[0].ErrorCode))
}

func produce(plain *kgo.Client, label string) []string {
	var values []string
	var records []*kgo.Record
	for number := range partitions * each {
		value := fmt.Sprintf("%s-%d", label, number)
		values = append(values, value)
		records = append(records, &kgo.Record{Topic: name, Partition: int32(number % partitions), Value: []byte(value)})
	}
	must(plain.ProduceSync(ctx, records...).FirstErr())
	return values
}

// committed is true once the group's offset of each partition is `offset`.
func committed(plain *kgo.Client, offset int64) bool {
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = name
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = name
	request.Groups = append(request.Groups, group)
	answer, err := request.RequestWith(ctx, plain)
	must(err)
	count := 0
	for _, topic := range answer.Groups[0].Topics {
		for _, partition := range topic.Partitions {
			if partition.Offset == offset {
				count++
			}
		}
	}
	return count == partitions
}

func until(what string, holds func() bool) {
	for !holds() {
		select {
		case <-ctx.Done():
			must(errors.New("not in time: " + what))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
