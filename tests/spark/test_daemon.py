from ottla.spark.daemon import without_archives


def test_the_archive_goes_only_where_its_own_pyspark_is_on_the_path(tmp_path):
    home = tmp_path / "site" / "pyspark"
    archive = str(home / "python" / "lib" / "pyspark.zip")
    path = ["", archive, str(tmp_path / "site")]
    assert without_archives(path) == path, "no pyspark is installed there"
    home.mkdir(parents=True)
    (home / "__init__.py").touch()
    assert without_archives(path) == ["", str(tmp_path / "site")]
    assert without_archives(["", archive]) == ["", archive], "it is not on the path"
    other = str(tmp_path / "else" / "pyspark" / "python" / "lib" / "pyspark.zip")
    assert without_archives([other, str(tmp_path / "site")]) == [other, str(tmp_path / "site")]
