// franz-go in groups of KIP-848: `franz BOOTSTRAP NAME BROKERS SCENE`, where NAME is the topic's and the group's.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	partitions = 4
	each       = 25
)

var scenes = map[string]func(*kgo.Client){"share": share, "restart": restart, "failovers": failovers}

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
	moves int
	read  []string
	done  chan struct{}
}

func main() {
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 160*time.Second)
	defer cancel()
	brokers, err := strconv.Atoi(os.Args[3])
	must(err)
	plain := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer plain.Close()
	create(plain, int16(brokers))
	scenes[os.Args[4]](plain)
	fmt.Println("all well")
}

// share: two members share the partitions, one leaves, another goes on where it had been.
func share(plain *kgo.Client) {
	first := join()
	until("all partitions of the only member", func() bool { return len(first.owns()) == partitions })
	written := produce(plain, "before")
	until("all offsets committed", func() bool { return committed(plain, each) })

	second := join()
	shared(plain, first, second)
	written = append(written, produce(plain, "between")...)
	until("all offsets of two members committed", func() bool { return committed(plain, 2*each) })

	second.stop()
	again := join()
	shared(plain, first, again)
	written = append(written, produce(plain, "after")...)
	until("all offsets committed at the end", func() bool { return committed(plain, 3*each) })
	again.stop()
	first.stop()
	same("values", slices.Concat(first.read, second.read, again.read), written)
}

// restart: a static member that is stopped and comes back has its partitions again, and no other has moved.
func restart(plain *kgo.Client) {
	first, second := join(kgo.InstanceID("one")), join(kgo.InstanceID("two"))
	epoch := shared(plain, first, second)
	written := produce(plain, "before")
	until("all offsets committed", func() bool { return committed(plain, each) })
	before, moves := second.owns(), first.moved()
	id, _ := second.GroupMetadata()
	second.stop()
	away(plain, id, "two")

	written = append(written, produce(plain, "while it was away")...)
	again := join(kgo.InstanceID("two"))
	if now := shared(plain, first, again); now != epoch {
		must(fmt.Errorf("the group went from epoch %d to %d", epoch, now))
	}
	same("partitions after the restart", again.owns(), before)
	until("all offsets committed at the end", func() bool { return committed(plain, 2*each) })
	if first.moved() != moves {
		must(errors.New("the member that stayed was given partitions, or lost some"))
	}
	again.stop()
	first.stop()
	same("values", slices.Concat(first.read, second.read, again.read), written)
}

// failovers: two members read and commit without a pause while the group's coordinators move and die. At the beginning,
// and for each line of the input, they commit what is written by then and more; then there is a line of output.
func failovers(plain *kgo.Client) {
	first, second := join(), join()
	epoch := shared(plain, first, second)
	moves := first.moved() + second.moved()
	var batches atomic.Int64
	enough, written := make(chan struct{}), make(chan []string)
	go func() {
		var values []string
		for {
			select {
			case <-enough:
				written <- values
				return
			default:
				values = append(values, produce(plain, fmt.Sprintf("batch-%d", batches.Load()))...)
				batches.Add(1)
			}
		}
	}()
	for input, more := bufio.NewScanner(os.Stdin), true; more; more = input.Scan() {
		through := (batches.Load() + 1) * each
		until("offsets committed while the group goes on", func() bool { return committed(plain, through) })
		fmt.Println("gone on")
	}
	close(enough)
	values := <-written
	until("all offsets committed at the end", func() bool { return committed(plain, batches.Load()*each) })
	if now := shared(plain, first, second); now != epoch {
		must(fmt.Errorf("the group went from epoch %d to %d", epoch, now))
	}
	if now := first.moved() + second.moved(); now != moves {
		must(fmt.Errorf("%d partitions were given or taken", now-moves))
	}
	second.stop()
	first.stop()
	same("values", slices.Concat(first.read, second.read), values)
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(bootstrap...))
	made, err := kgo.NewClient(append(options, login()...)...)
	must(err)
	return made
}

// login is what a client is given beside the brokers' address: the login in OTTLA_COMPAT_LOGIN, if they ask for one.
func login() []kgo.Opt {
	given := os.Getenv("OTTLA_COMPAT_LOGIN")
	if given == "" {
		return nil
	}
	var said struct{ User, Password, Trusted string }
	must(json.Unmarshal([]byte(given), &said))
	certificates, err := os.ReadFile(said.Trusted)
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificates)
	auth := scram.Auth{User: said.User, Pass: said.Password}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(auth.AsSha512Mechanism())}
}

func join(options ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}, done: make(chan struct{})}
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
	go m.consume()
	return m
}

func (m *member) note(owned bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		m.moves += len(given[name])
		for _, partition := range given[name] {
			if owned {
				m.owned[partition] = true
			} else {
				delete(m.owned, partition)
			}
		}
	}
}

func (m *member) owns() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Sorted(maps.Keys(m.owned))
}

// moved is how many partitions the member was given or has given up.
func (m *member) moved() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.moves
}

// consume reads and commits until the client is closed.
func (m *member) consume() {
	defer close(m.done)
	for {
		fetches := m.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		must(fetches.Err())
		records := fetches.Records()
		if len(records) > 0 {
			m.commit(records)
		}
		for _, record := range records {
			m.read = append(m.read, string(record.Value))
		}
		m.AllowRebalance()
	}
}

// commit sends a commit again that no coordinator has answered. franz-go 1.22.2 gives up where the broker that it asks
// for the coordinator refuses the connection.
func (m *member) commit(records []*kgo.Record) {
	until("a commit answered", func() bool {
		err := m.CommitRecords(ctx, records...)
		if unanswered(err) {
			return false
		}
		must(err)
		return true
	})
}

// unanswered is true for an error that no broker has answered with.
func unanswered(err error) bool {
	var answered *kerr.Error
	return err != nil && !errors.As(err, &answered)
}

func (m *member) stop() {
	m.CloseAllowingRebalance()
	<-m.done
}

// away says that a static member will be back. franz-go 1.22.2 says so without the instance's name, which is refused.
func away(plain *kgo.Client, id, instance string) {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	request.Group, request.MemberID, request.InstanceID, request.MemberEpoch = name, id, &instance, -2
	answer, err := request.RequestWith(ctx, plain)
	must(err)
	must(kerr.ErrorForCode(answer.ErrorCode))
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

// committed is true once the group's offset of each partition is `offset` or more. franz-go 1.22.2 asks only once where
// a coordinator refuses the connection; then it is false.
func committed(plain *kgo.Client, offset int64) bool {
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = name
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = name
	request.Groups = append(request.Groups, group)
	answer, err := request.RequestWith(ctx, plain)
	if unanswered(err) {
		return false
	}
	must(err)
	count := 0
	for _, topic := range answer.Groups[0].Topics {
		for _, partition := range topic.Partitions {
			if partition.Offset >= offset {
				count++
			}
		}
	}
	return count == partitions
}

// shared waits until two members have two partitions each in a group of the consumer protocol; it returns its epoch.
func shared(plain *kgo.Client, first, second *member) (epoch int32) {
	until("two partitions each", func() bool { return len(first.owns()) == 2 && len(second.owns()) == 2 })
	same("partitions", slices.Concat(first.owns(), second.owns()), []int32{0, 1, 2, 3})
	until("a stable group of the consumer protocol", func() bool {
		request := kmsg.NewPtrConsumerGroupDescribeRequest()
		request.Groups = []string{name}
		answer, err := request.RequestWith(ctx, plain)
		if unanswered(err) {
			return false
		}
		must(err)
		group := answer.Groups[0]
		epoch = group.Epoch
		return group.ErrorCode == 0 && group.State == "Stable" && len(group.Members) == 2
	})
	return epoch
}

func same[T cmp.Ordered](what string, found, wanted []T) {
	slices.Sort(found)
	slices.Sort(wanted)
	if !slices.Equal(found, wanted) {
		must(fmt.Errorf("%s: %d found, %d wanted, and they differ: %v, %v", what, len(found), len(wanted), found, wanted))
	}
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
