import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

from ottla.spark.daemon import launcher, without_archives


def test_the_archive_goes_only_where_its_own_pyspark_is_on_the_path(tmp_path):
    home = tmp_path / "site" / "pyspark"
    archive = str(home / "python" / "lib" / "pyspark.zip")
    path = ["", archive, str(tmp_path / "site")]
    assert without_archives(path) == path, "no pyspark is installed there"
    home.mkdir(parents=True)
    (home / "__init__.py").touch()
    assert without_archives(path) == ["", str(tmp_path / "site")]
    assert without_archives(["", archive]) == ["", archive], "it is not on the path"
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "site")
    assert without_archives([archive, str(linked)]) == [str(linked)], "the same folder by another name"
    other = str(tmp_path / "else" / "pyspark" / "python" / "lib" / "pyspark.zip")
    assert without_archives([other, str(tmp_path / "site")]) == [other, str(tmp_path / "site")]


def test_the_launcher_starts_this_python_without_the_archive():
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    code = "import sys, pyspark; print(sys.executable, pyspark.__file__, sys.argv[1], *sys.path, sep='|')"
    for path in ([archive], [archive.resolve(), "/a b"], ["/a b", archive], ["/a b", archive, "/c"], ["/a b"], []):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        command = [launcher(), "-c", code, "an argument"]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
        executable, module, argument, *found = said.strip().split("|")
        assert (executable, module, argument) == (sys.executable, pyspark.__file__, "an argument")
        assert not {str(archive), str(archive.resolve())} & set(found)
        assert [each for each in found if each in {"/a b", "/c"}] == [each for each in path if each in {"/a b", "/c"}]


def test_a_worker_ends_without_a_traceback_when_spark_has_hung_up():
    code = """
import os
from ottla.spark.daemon import quiet
reader, writer = os.pipe()
os.close(reader)
quiet(lambda socket, authenticated: os.write(writer, b"a row"))(None, True)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


@pytest.mark.parametrize(("hung_up", "shown"), [(True, ""), (False, "PySpark daemon failed to flush")])
def test_pysparks_daemon_shows_no_traceback_of_a_connection_that_spark_closed(hung_up, shown):
    code = f"""
import socket, sys, types
from pyspark import daemon
from ottla.spark.daemon import unless_hung_up
daemon.print = unless_hung_up
sys.argv = ["daemon"]
sys.modules["pyspark.worker"] = worker = types.ModuleType("pyspark.worker")
ours, theirs = socket.socketpair()
def main(infile, outfile):
    outfile.write(b"a row")
    theirs.close() if {hung_up} else outfile.detach()
worker.main = main
daemon.worker(ours, True)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and ended.stderr.startswith(shown) and bool(ended.stderr) == bool(shown)


@pytest.mark.spark
def test_planning_runs_compiled_modules_of_the_installed_pyspark(spark):
    class Where(DataSourceReader):
        def __init__(self, folder):
            self.folder = folder

        def read(self, partition):
            yield (self.folder,)

    class Told(DataSource):
        @classmethod
        def name(cls):
            return "told"

        def schema(self):
            return "folder string"

        def reader(self, schema):
            return Where(pyspark.__file__)

    spark.dataSource.register(Told)
    assert Path(spark.read.format("told").load().collect()[0].folder) == Path(pyspark.__file__)
