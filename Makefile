# Each target does its own set-up; see tools/setup.sh.
PYTHON := .venv/bin/python
# Test files run side by side, three on two cores since many wait; make test JOBS=0 runs one after the other.
JOBS ?= 3
SIM_JOBS ?= 2
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Some images switch bytecode off: then every process compiles all that it imports, and starts three times slower.
unexport PYTHONDONTWRITEBYTECODE

TEST_PARTS := test demo java kafka-if-possible streams-if-possible zookeeper-if-possible hdfs-if-possible azurite-if-possible postgres-if-possible mariadb-if-possible opensearch-if-possible browser-if-possible spark-archive kafka-archive

.PHONY: help demo test test-parts check compat debezium-events debezium-events-mariadb fuzz sim faults damage once kerberos lake-campaign spark-campaign connect-campaign mirror-campaign streams-campaign bench site pictures wheels image deb helm monitoring format clean

help:
	@echo 'make demo    flights into topics, a lake and a picture (a few minutes after set-up)'
	@echo 'make test    the test suite; make test ARGS="tests/lake -k keyed" for a part; ARGS=--long for more kills and damages'
	@echo 'make check   ruff, mypy, import-linter, the house rules'
	@echo 'make compat  other people'"'"'s clients and their suites, beside Apache Kafka; ARGS="--secure" over SASL_SSL'
	@echo 'make debezium-events  the events of change capture beside those of Debezium on a stock worker, recorded anew'
	@echo 'make debezium-events-mariadb  the same for MariaDB'
	@echo 'make fuzz    the compiled part under sanitizers, then mutated input against a live broker'
	@echo 'make sim     three and four brokers in virtual time from 250 seeds; make sim ARGS="--seeds 500" for one broker'
	@echo 'make faults  faults in three real brokers, for root; make faults ARGS="--power-cuts 50 --tls" or "--minutes 60"'
	@echo 'make damage  every file of a broker damaged in every way; make damage ARGS="--cases 60"'
	@echo 'make once    copies and money in transactions while brokers are killed; make once ARGS="money --minutes 30" for root'
	@echo 'make kerberos  logins by Kerberos against a key distribution centre, which it installs'
	@echo 'make lake-campaign  topics into lakes everywhere under kill -9; make lake-campaign ARGS="--rows 5000000 --kills 40"'
	@echo 'make spark-campaign  the exactly-once Spark sink under kill -9; make spark-campaign ARGS="--rows 1000000 --kills 30"'
	@echo 'make connect-campaign  connectors under kill -9 of workers, broker and databases; ARGS="--kills 40", "--only s3", or "--minutes 15"'
	@echo 'make mirror-campaign  a mirror under kill -9 of itself and of both brokers; make mirror-campaign ARGS="--kills 60"'
	@echo 'make streams-campaign  topologies on Spark under kill -9; make streams-campaign ARGS="--besieged --kills 12"'
	@echo 'make bench   the race against Apache Kafka; make bench ARGS="--quick --only produce"'
	@echo 'make wheels  wheels for Linux on x86-64 and arm64, with glibc and musl, and the source archive'
	@echo 'make image   a container image, without a container engine; ARGS="--try" starts it, for root'
	@echo 'make deb     a package for Debian'
	@echo 'make helm    the Helm chart linted, rendered and checked, by a helm that is built first'
	@echo 'make monitoring  alert rules and a dashboard, each expression evaluated by Prometheus'
	@echo 'make site    the documentation as a site with a search, to be read from the disk or from any server'
	@echo 'make pictures  the pictures of the pages, by the demo and by the commands of a guide'

demo:
	@tools/setup.sh demo java
	@$(PYTHON) -m ottla.demo $(ARGS)

test: test-parts
	@$(PYTHON) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

# What the suite needs and nothing else does.
test-parts:
	@tools/setup.sh $(TEST_PARTS)

check:
	@tools/setup.sh test demo
	@tools/check.sh

compat:
	@tools/setup.sh test demo java kafka spark-jars streams-jars mirror-jars spark42 node go cc clients
	@$(PYTHON) tools/compat.py $(ARGS)

debezium-events:
	@tools/setup.sh test java kafka debezium-jars postgres-if-possible
	@$(PYTHON) -m tests.connect.plugins.capture.stock

debezium-events-mariadb:
	@tools/setup.sh test java kafka debezium-mariadb-jars mariadb-if-possible
	@$(PYTHON) -m tests.connect.plugins.binlog.stock

fuzz:
	@tools/setup.sh test
	@$(PYTHON) tools/sanitize.py
	@$(PYTHON) -m tests.fuzz $(ARGS)

sim:
	@tools/setup.sh test
	@.venv/bin/ottla sim $(or $(ARGS),--brokers 3 --seeds 200 --jobs $(SIM_JOBS))
	@$(if $(ARGS),,.venv/bin/ottla sim --brokers 4 --seeds 50 --jobs $(SIM_JOBS))

faults:
	@tools/setup.sh test java zookeeper-if-possible hdfs-if-possible
	@$(PYTHON) -m tests.faults $(or $(ARGS),--power-cuts 5)

damage:
	@tools/setup.sh test
	@$(PYTHON) -m tests.damage $(ARGS)

lake-campaign:
	@tools/setup.sh test java hdfs-if-possible
	@$(PYTHON) -m tests.lake.campaign $(ARGS)

kerberos:
	@tools/setup.sh test java kafka-if-possible kerberos-if-possible
	@$(PYTHON) -m pytest -m "" tests/access/test_kerberos_logins.py $(ARGS)

once:
	@tools/setup.sh test java zookeeper-if-possible
	@$(PYTHON) -m tests.once $(or $(ARGS),copies)

spark-campaign:
	@tools/setup.sh test java kafka
	@$(PYTHON) -m tests.spark.campaign $(ARGS)

mirror-campaign:
	@tools/setup.sh test
	@$(PYTHON) -m tests.mirror.campaign $(ARGS)

connect-campaign:
	@tools/setup.sh test
	@$(PYTHON) -m tests.connect.campaign $(ARGS)

streams-campaign:
	@tools/setup.sh test java streams-jars
	@$(PYTHON) -m tests.streams.campaign $(ARGS)

bench:
	@tools/setup.sh test demo java kafka spark-jars spark42 delta-jars cc queues-if-possible \
		connectors-if-possible postgres-if-possible
	@$(PYTHON) -m bench.race $(ARGS)

wheels:
	@tools/setup.sh test zig
	@$(PYTHON) tools/wheels.py $(ARGS)

image:
	@tools/setup.sh test zig
	@$(PYTHON) tools/image.py $(ARGS)

deb:
	@tools/setup.sh test zig
	@$(PYTHON) tools/deb.py $(ARGS)

helm:
	@tools/setup.sh test go helm
	@$(PYTHON) tools/helm.py

monitoring:
	@tools/setup.sh test prometheus
	@$(PYTHON) tools/monitoring.py --try

site:
	@tools/setup.sh test site
	@$(PYTHON) tools/doc_site.py

pictures: demo
	@$(PYTHON) tools/pictures.py

format:
	@tools/setup.sh test
	@.venv/bin/ruff check -q --fix . ; .venv/bin/ruff format -q .

clean:
	rm -rf .venv .venv-spark42 .cache ottla-demo build
