/* The client of the race: one program over librdkafka, the same against every broker.
 *
 *   driver MODE NAME=VALUE...         prints one line of JSON
 *
 * produce   records= size= batch= acks= warmup= partitions= run= idle=   records/s, first send to last report
 * consume   records= warmup= partitions=                                 records/s, after the warm-up
 * readers   records= partitions= readers=                                records/s of all consumers, each reads all
 * steady    records= size= acks= rate= linger= warmup= partitions=       microseconds from send to arrival, end to end
 * latency   records= size= acks= warmup=                                 microseconds of one record at a time
 * crowd     records= size= acks= connections=                            as produce, from many clients at once
 * transact  records= size= transaction= warmup= partitions=              as produce, so many records a transaction
 *
 * All take brokers= and topic=; a name with a dot in it (linger.ms=0) goes to librdkafka as it is.
 * batch=0 leaves batches to their size (about 1 MB); batch=N sends at most N records in one.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rdkafka.h"

enum { FETCHED_AT_ONCE = 10000, POLL_EVERY = 1024, PATIENCE_S = 120, MOST_THREADS = 4096 };

static struct options {
    const char *brokers, *topic, *acks;
    long records, size, batch, warmup, partitions, run, idle, connections, transaction, readers, rate, linger;
    int settings;
    const char *names[32], *values[32];
} options = {.brokers = "127.0.0.1:9092", .topic = "bench", .acks = "1", .records = 1000000, .size = 200,
             .partitions = 1, .run = 1, .connections = 1, .transaction = 1,
             .readers = 1, .rate = 1000, .linger = -1};

static long delivered, failed;
static rd_kafka_resp_err_t last_failure;
static int payload_flags; /* 0: a payload stays as it is until its report */

static void die(const char *what, const char *why) {
    fprintf(stderr, "driver: %s: %s\n", what, why);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* The beginning of what is timed, with the processor time that each thread has used before it. */
struct start {
    double at, cpu;
    int threads;
    struct { long id; double cpu; } thread[MOST_THREADS];
};

/* Note all threads of this process; those above MOST_THREADS are left out. */
static void note_threads(struct start *start) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    start->threads = 0;
    while (tasks && start->threads < MOST_THREADS && (task = readdir(tasks))) {
        char path[300];
        unsigned long long nanoseconds;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%llu", &nanoseconds) == 1) {
            start->thread[start->threads].id = atol(task->d_name);
            start->thread[start->threads++].cpu = (double)nanoseconds / 1e9;
        }
        fclose(file);
    }
    if (tasks) closedir(tasks);
}

static void begin_now(struct start *start) {
    note_threads(start);
    start->at = now(), start->cpu = cpu_seconds();
}

/* The processor time since then of the thread that used most: librdkafka serves a connection by one thread, so no more
 * than one core's worth of records passes through it. */
static double busiest_thread(const struct start *start) {
    static struct start end;
    double most = 0;
    note_threads(&end);
    for (int i = 0; i < end.threads; i++) {
        double used = end.thread[i].cpu;
        for (int j = 0; j < start->threads; j++)
            if (start->thread[j].id == end.thread[i].id) used -= start->thread[j].cpu;
        if (used > most) most = used;
    }
    return most;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK) die(name, error);
}

static void set_number(rd_kafka_conf_t *conf, const char *name, long value) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    set(conf, name, text);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    delivered++;
    if (message->err) {
        failed++;
        last_failure = message->err;
    }
}

static rd_kafka_t *client_of(int type, rd_kafka_conf_t *conf) {
    char error[512];
    set(conf, "bootstrap.servers", options.brokers);
    set(conf, "client.id", "ottla-bench");
    set(conf, "log_level", "3");
    for (int i = 0; i < options.settings; i++) set(conf, options.names[i], options.values[i]);
    rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
    if (!client) die("rd_kafka_new", error);
    return client;
}

static rd_kafka_t *producer(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "acks", options.acks);
    set(conf, "queue.buffering.max.messages", "500000");
    set(conf, "queue.buffering.max.kbytes", "1048576");
    if (options.batch) {
        set_number(conf, "batch.num.messages", options.batch);
        set(conf, "linger.ms", options.batch == 1 ? "0" : "5");
    } else {
        set(conf, "batch.num.messages", "1000000");
        set(conf, "batch.size", "1000000");
        set(conf, "linger.ms", "50");
    }
    if (options.linger >= 0) set_number(conf, "linger.ms", options.linger);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return client_of(RD_KAFKA_PRODUCER, conf);
}

static rd_kafka_topic_t *topic_of(rd_kafka_t *client) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
    if (!topic) die("topic", rd_kafka_err2str(rd_kafka_last_error()));
    return topic;
}

static void send_one(rd_kafka_t *client, rd_kafka_topic_t *topic, long number, void *payload) {
    int32_t partition = (int32_t)((number / options.run) % options.partitions);
    while (rd_kafka_produce(topic, partition, payload_flags, payload, (size_t)options.size, NULL, 0, NULL) != 0) {
        rd_kafka_resp_err_t error = rd_kafka_last_error();
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("produce", rd_kafka_err2str(error));
        rd_kafka_poll(client, 10);
    }
}

static void wait_for(rd_kafka_t *client, long until) {
    double deadline = now() + PATIENCE_S;
    while (delivered < until) {
        rd_kafka_poll(client, 100);
        if (now() > deadline) die("produce", "not all records were reported in time");
    }
}

/* Send `count` records and wait for every report. */
static void send_all(rd_kafka_t *client, rd_kafka_topic_t *topic, long count, void *payload) {
    delivered = 0;
    for (long i = 0; i < count; i++) {
        send_one(client, topic, i, payload);
        if (i % POLL_EVERY == 0) rd_kafka_poll(client, 0);
    }
    wait_for(client, count);
}

static void *payload_of_size(void) {
    unsigned char *payload = malloc((size_t)options.size + 1);
    for (long i = 0; i < options.size; i++) payload[i] = (unsigned char)('a' + (i * 7 + i / 13) % 26);
    return payload;
}

static void report_rate(const char *mode, long records, const struct start *start) {
    double seconds = now() - start->at, cpu = cpu_seconds() - start->cpu;
    printf("{\"mode\": \"%s\", \"librdkafka\": \"%s\", \"records\": %ld, \"seconds\": %.6f, \"records_per_second\": %.1f, "
           "\"client_cpu_seconds\": %.3f, \"client_busiest_thread_seconds\": %.3f, \"failed\": %ld}\n",
           mode, rd_kafka_version_str(), records, seconds, (double)records / seconds, cpu, busiest_thread(start), failed);
    if (failed) die("produce", rd_kafka_err2str(last_failure));
}

/* Open TCP connections to the first broker that ask for the API versions once, as every client does, and then say
 * nothing more. */
static int *idle_connections(long count) {
    static const unsigned char api_versions[] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff};
    char host[256];
    snprintf(host, sizeof host, "%.*s", (int)strcspn(options.brokers, ","), options.brokers);
    char *port = strrchr(host, ':');
    if (!port) die("brokers", "HOST:PORT is wanted");
    *port++ = 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *address;
    if (getaddrinfo(host, port, &hints, &address)) die("brokers", "no such host");
    int *sockets = calloc((size_t)count + 1, sizeof *sockets);
    for (long i = 0; i < count; i++) {
        unsigned char answer[4];
        sockets[i] = socket(address->ai_family, SOCK_STREAM, 0);
        if (sockets[i] < 0 || connect(sockets[i], address->ai_addr, address->ai_addrlen)) die("idle", "cannot connect");
        if (write(sockets[i], api_versions, sizeof api_versions) != sizeof api_versions ||
            recv(sockets[i], answer, sizeof answer, MSG_WAITALL) != sizeof answer)
            die("idle", "no answer to ApiVersions");
    }
    freeaddrinfo(address);
    return sockets;
}

static void produce(void) {
    int *idle = idle_connections(options.idle);
    rd_kafka_t *client = producer();
    rd_kafka_topic_t *topic = topic_of(client);
    void *payload = payload_of_size();
    send_all(client, topic, options.warmup ? options.warmup : options.partitions, payload);
    static struct start start;
    begin_now(&start);
    send_all(client, topic, options.records, payload);
    report_rate("produce", options.records, &start);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    for (long i = 0; i < options.idle; i++) close(idle[i]);
    free(idle);
    free(payload);
}

/* A consumer with its queue. */
struct reader {
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    rd_kafka_queue_t *queue;
};

static struct reader reader_of_all(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    /* A consumer whose queue is full asks for nothing for a second: the race would time that pause. */
    set(conf, "queued.min.messages", "10000000");
    set(conf, "queued.max.messages.kbytes", "2097151");
    set(conf, "enable.auto.commit", "false");
    set(conf, "group.id", "ottla-bench");
    struct reader reader = {.client = client_of(RD_KAFKA_CONSUMER, conf)};
    reader.topic = topic_of(reader.client);
    reader.queue = rd_kafka_queue_new(reader.client);
    for (long i = 0; i < options.partitions; i++)
        if (rd_kafka_consume_start_queue(reader.topic, (int32_t)i, RD_KAFKA_OFFSET_BEGINNING, reader.queue))
            die("consume", rd_kafka_err2str(rd_kafka_last_error()));
    return reader;
}

static void close_reader(struct reader *reader) {
    for (long i = 0; i < options.partitions; i++) rd_kafka_consume_stop(reader->topic, (int32_t)i);
    rd_kafka_queue_destroy(reader->queue);
    rd_kafka_topic_destroy(reader->topic);
    rd_kafka_destroy(reader->client);
}

/* Whether a message bears a record; else it says that a partition has ended. */
static int is_record(const rd_kafka_message_t *message) {
    if (message->err && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
        die("consume", rd_kafka_err2str(message->err));
    return !message->err;
}

/* Read `options.records`; the clock starts once `warmup` of them are taken. Returns those that it counted. */
static long read_all(struct reader *reader, long warmup, struct start *start) {
    rd_kafka_message_t **messages = calloc(FETCHED_AT_ONCE, sizeof *messages);
    long taken = 0, bytes = 0, before = warmup ? -1 : 0; /* records taken before the clock started */
    double deadline = now() + PATIENCE_S;
    begin_now(start);
    while (taken < options.records) {
        ssize_t count = rd_kafka_consume_batch_queue(reader->queue, 1000, messages, FETCHED_AT_ONCE);
        for (ssize_t i = 0; i < count; i++) {
            if (is_record(messages[i])) taken++, bytes += (long)messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        if (before < 0 && taken >= warmup) before = taken, begin_now(start);
        if (now() > deadline) die("consume", "the records did not come in time");
    }
    if (bytes / taken != options.size) die("consume", "records of another size came back");
    free(messages);
    return taken - before;
}

static void consume(void) {
    struct reader reader = reader_of_all();
    static struct start start;
    long counted = read_all(&reader, options.warmup, &start);
    report_rate("consume", counted, &start);
    close_reader(&reader);
}

static void *read_in_thread(void *unused) {
    struct start *start = malloc(sizeof *start);
    struct reader reader = reader_of_all();
    read_all(&reader, 0, start);
    close_reader(&reader);
    free(start);
    return unused;
}

static void in_thread(pthread_t *thread, void *(*run)(void *), void *argument) {
    if (pthread_create(thread, NULL, run, argument)) die("thread", "cannot be started");
}

static void readers(void) {
    pthread_t *threads = calloc((size_t)options.readers, sizeof *threads);
    static struct start start;
    begin_now(&start);
    for (long i = 0; i < options.readers; i++) in_thread(&threads[i], read_in_thread, NULL);
    for (long i = 0; i < options.readers; i++) pthread_join(threads[i], NULL);
    report_rate("readers", options.readers * options.records, &start);
    free(threads);
}

static int ascending(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

/* Sorts what it is given. `p999_us` says little below some ten thousand records. */
static void report_times(const char *mode, double *taken, double seconds, double cpu) {
    long count = options.records;
    qsort(taken, (size_t)count, sizeof *taken, ascending);
    printf("{\"mode\": \"%s\", \"librdkafka\": \"%s\", \"records\": %ld, \"seconds\": %.6f, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, \"client_cpu_seconds\": %.3f, \"failed\": %ld}\n",
           mode, rd_kafka_version_str(), count, seconds, taken[count / 2], taken[count * 99 / 100],
           taken[count * 999 / 1000], taken[count - 1], cpu, failed);
    if (failed) die(mode, rd_kafka_err2str(last_failure));
}

static void latency(void) {
    options.batch = 1;
    rd_kafka_t *client = producer();
    rd_kafka_topic_t *topic = topic_of(client);
    void *payload = payload_of_size();
    double *taken = calloc((size_t)options.records, sizeof *taken);
    double begin = now(), cpu = cpu_seconds();
    for (long i = -options.warmup; i < options.records; i++) {
        if (i == 0) begin = now(), cpu = cpu_seconds();
        delivered = 0;
        double sent = now();
        send_one(client, topic, 0, payload);
        wait_for(client, 1);
        if (i >= 0) taken[i] = (now() - sent) * 1e6;
    }
    report_times("latency", taken, now() - begin, cpu_seconds() - cpu);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    free(taken);
    free(payload);
}

/* What stands at the beginning of a steady record. */
struct stamp {
    double due; /* when it was to be sent: a sender that is late hides nothing */
    long number;
};

/* Take every steady record once; the times of those after the warm-up go to `taken`. */
static void *take_steady(void *taken) {
    struct reader reader = reader_of_all();
    double *times = taken, deadline = now() + PATIENCE_S;
    for (long left = options.warmup + options.records; left > 0;) {
        rd_kafka_message_t *message = rd_kafka_consume_queue(reader.queue, 1000);
        double arrived = now();
        if (arrived > deadline) die("steady", "the records did not come in time");
        if (!message) continue;
        if (is_record(message)) {
            struct stamp stamp;
            memcpy(&stamp, message->payload, sizeof stamp);
            if (stamp.number >= options.warmup) times[stamp.number - options.warmup] = (arrived - stamp.due) * 1e6;
            left--;
        }
        rd_kafka_message_destroy(message);
    }
    close_reader(&reader);
    return taken;
}

static void sleep_until(double moment) {
    struct timespec time = {.tv_sec = (time_t)moment, .tv_nsec = (long)((moment - (double)(time_t)moment) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL)) continue;
}

/* Send at a steady rate, round all partitions, while a consumer of the same process takes what arrives. */
static void steady(void) {
    if (options.size < (long)sizeof(struct stamp)) die("steady", "records are too small for their time");
    rd_kafka_t *client = producer();
    rd_kafka_topic_t *topic = topic_of(client);
    void *payload = payload_of_size();
    double *taken = calloc((size_t)options.records, sizeof *taken);
    payload_flags = RD_KAFKA_MSG_F_COPY;
    pthread_t consumer;
    in_thread(&consumer, take_steady, taken);
    double begin = now() + 1, cpu = cpu_seconds();
    for (long i = 0; i < options.warmup + options.records; i++) {
        struct stamp stamp = {.due = begin + (double)i / (double)options.rate, .number = i};
        memcpy(payload, &stamp, sizeof stamp);
        if (now() < stamp.due) sleep_until(stamp.due);
        if (i == options.warmup) cpu = cpu_seconds();
        send_one(client, topic, i, payload);
        rd_kafka_poll(client, 0);
    }
    wait_for(client, options.warmup + options.records);
    pthread_join(consumer, NULL);
    report_times("steady", taken, now() - begin, cpu_seconds() - cpu);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    free(taken);
    free(payload);
}

static void must(const char *what, rd_kafka_error_t *error) {
    if (error) die(what, rd_kafka_error_string(error));
}

/* Commit `count` transactions, one after the other, each over all partitions as far as its records go. */
static void commit_all(rd_kafka_t *client, rd_kafka_topic_t *topic, long count, void *payload) {
    for (long i = 0; i < count; i++) {
        must("begin", rd_kafka_begin_transaction(client));
        for (long j = 0; j < options.transaction; j++) send_one(client, topic, j, payload);
        must("commit", rd_kafka_commit_transaction(client, PATIENCE_S * 1000));
    }
}

static void transact(void) {
    rd_kafka_t *client = producer();
    must("init", rd_kafka_init_transactions(client, PATIENCE_S * 1000));
    rd_kafka_topic_t *topic = topic_of(client);
    void *payload = payload_of_size();
    long count = options.records / options.transaction;
    commit_all(client, topic, options.warmup / options.transaction + 1, payload);
    static struct start start;
    begin_now(&start);
    commit_all(client, topic, count, payload);
    report_rate("transact", count * options.transaction, &start);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    free(payload);
}

/* Wait until every client's records are reported: each has a queue of its own. */
static void wait_for_all(rd_kafka_t **clients, long until) {
    double deadline = now() + PATIENCE_S;
    while (delivered < until) {
        long before = delivered;
        for (long i = 0; i < options.connections; i++) rd_kafka_poll(clients[i], 0);
        if (delivered == before) usleep(200);
        if (now() > deadline) die("crowd", "not all records were reported in time");
    }
}

static void crowd(void) {
    rd_kafka_t **clients = calloc((size_t)options.connections, sizeof *clients);
    rd_kafka_topic_t **topics = calloc((size_t)options.connections, sizeof *topics);
    void *payload = payload_of_size();
    for (long i = 0; i < options.connections; i++) {
        clients[i] = producer();
        topics[i] = topic_of(clients[i]);
        send_one(clients[i], topics[i], 0, payload);
    }
    wait_for_all(clients, options.connections);
    delivered = 0;
    static struct start start;
    begin_now(&start);
    long each = options.records / options.connections, total = each * options.connections;
    for (long round = 0; round < each; round++)
        for (long i = 0; i < options.connections; i++) send_one(clients[i], topics[i], 0, payload);
    wait_for_all(clients, total);
    report_rate("crowd", total, &start);
    fflush(stdout);
    _exit(0); /* closing hundreds of clients one by one says nothing about the broker */
}

static void read_option(char *argument) {
    char *value = strchr(argument, '=');
    if (!value) die(argument, "NAME=VALUE is wanted");
    *value++ = 0;
    struct { const char *name; long *number; } numbers[] = {
        {"records", &options.records}, {"size", &options.size}, {"batch", &options.batch},
        {"warmup", &options.warmup}, {"partitions", &options.partitions}, {"run", &options.run},
        {"idle", &options.idle}, {"connections", &options.connections}, {"transaction", &options.transaction},
        {"readers", &options.readers}, {"rate", &options.rate}, {"linger", &options.linger}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(argument, numbers[i].name)) {
            *numbers[i].number = atol(value);
            return;
        }
    if (!strcmp(argument, "brokers")) options.brokers = value;
    else if (!strcmp(argument, "topic")) options.topic = value;
    else if (!strcmp(argument, "acks")) options.acks = value;
    else if (strchr(argument, '.') && options.settings < 32) {
        options.names[options.settings] = argument;
        options.values[options.settings++] = value;
    } else die(argument, "no such option");
}

int main(int count, char **arguments) {
    if (count < 2) die("usage", "driver produce|consume|readers|latency|steady|crowd|transact|version NAME=VALUE...");
    for (int i = 2; i < count; i++) read_option(arguments[i]);
    if (options.records < 1 || options.partitions < 1 || options.run < 1 || options.connections < 1 ||
        options.transaction < 1 || options.readers < 1 || options.rate < 1)
        die("usage", "records, partitions, run, connections, transaction, readers and rate are at least 1");
    if (!strcmp(arguments[1], "produce")) produce();
    else if (!strcmp(arguments[1], "consume")) consume();
    else if (!strcmp(arguments[1], "readers")) readers();
    else if (!strcmp(arguments[1], "latency")) latency();
    else if (!strcmp(arguments[1], "steady")) steady();
    else if (!strcmp(arguments[1], "crowd")) crowd();
    else if (!strcmp(arguments[1], "transact")) transact();
    else if (!strcmp(arguments[1], "version")) printf("%s\n", rd_kafka_version_str());
    else die(arguments[1], "no such mode");
    return 0;
}
