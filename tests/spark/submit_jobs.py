"""Opens a session as a command does, and prints what it has as one line of JSON.

python tests/spark/submit_jobs.py [OPTIONS OF SPARK]
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from ottla.spark.submit import add_spark_arguments, open_session, spark_settings

ASKED = (
    "spark.master",
    "spark.app.name",
    "spark.sql.shuffle.partitions",
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
    "spark.driver.memory",
)


def main() -> int:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    parser = argparse.ArgumentParser()
    add_spark_arguments(parser)
    spark, owned = open_session(spark_settings(parser.parse_args()), application="the tool")
    again = open_session(spark_settings(parser.parse_args([])))
    conf = spark.sparkContext.getConf()
    seen = {name: conf.get(name) for name in ASKED}
    seen |= {"owned": owned, "the same again": again.spark is spark and not again.owned}
    seen |= {"arguments left": os.environ.get("PYSPARK_SUBMIT_ARGS")}
    print(json.dumps(seen), file=answer, flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
