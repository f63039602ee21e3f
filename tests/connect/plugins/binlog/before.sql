CREATE DATABASE inv CHARACTER SET utf8mb4;
CREATE TABLE inv.kinds (
  id int NOT NULL AUTO_INCREMENT PRIMARY KEY, b boolean, t1 tinyint, t1u tinyint unsigned, t11 tinyint(1), s smallint, su smallint unsigned, md mediumint, mdu mediumint unsigned,
  i int NOT NULL DEFAULT 7, iu int unsigned, iz int(5) zerofill, bi bigint, biu bigint unsigned, f float, f53 float(7,3), d double, d83 double(8,3),
  n numeric, n52 decimal(5,2), n50 decimal(5,0), n6530 decimal(65,30), n52u decimal(5,2) unsigned,
  bit1 bit(1), bit5 bit(5), bit64 bit(64), c char(5), vc varchar(20) DEFAULT 'x', l1 varchar(20) CHARACTER SET latin1, tt tinytext, t text, mt mediumtext, lt longtext,
  bin3 binary(3), vb varbinary(5), tb tinyblob, bl blob, mb mediumblob, lb longblob,
  dt date, tm time, tm3 time(3), tm6 time(6), dtm datetime, dtm3 datetime(3), dtm6 datetime(6), ts timestamp NULL, ts3 timestamp(3) NULL, ts6 timestamp(6) NULL, y year,
  mood enum('sad','ok','happy','a''b') CHARACTER SET utf8mb4, tags set('a','b','c'), j json, pt point, g geometry, u uuid
);
CREATE TABLE inv.nokey (a int, b text);
CREATE TABLE inv.two_keys (b int, a varchar(20), v text, PRIMARY KEY (b, a));
CREATE TABLE inv.unique_only (id int, code varchar(9) NOT NULL, v text, UNIQUE KEY (code));
CREATE TABLE inv.changing (id int PRIMARY KEY, v text);
CREATE TABLE inv.`Odd Name$` (id int PRIMARY KEY, `two words` text, `MiXed` int);
CREATE TABLE inv.defaults (id int PRIMARY KEY, a int NOT NULL DEFAULT 5, b varchar(9) NOT NULL DEFAULT 'a''bc', c boolean DEFAULT true, d decimal(5,2) NOT NULL DEFAULT 1.50, e datetime NOT NULL DEFAULT '2020-01-02 03:04:05', f timestamp NOT NULL DEFAULT current_timestamp(), g date DEFAULT '2020-01-02', h bigint unsigned DEFAULT 18446744073709551615, i double DEFAULT 1.5, k int GENERATED ALWAYS AS (a + 1) STORED, m time DEFAULT '10:00', o enum('x','y') DEFAULT 'y', p varchar(5) DEFAULT NULL, q bit(3) DEFAULT b'101', r set('a','b') NOT NULL DEFAULT 'a,b', s year DEFAULT 2001, t varchar(9) DEFAULT (upper('a')), w float NOT NULL DEFAULT 0.5, x bit(1) DEFAULT b'1', z timestamp(3) NOT NULL DEFAULT '2020-01-02 03:04:05.6', aa bigint NOT NULL DEFAULT -3, ab decimal(5,2) DEFAULT NULL, v int AS (a + 2) VIRTUAL);
CREATE TABLE inv.plain (id int PRIMARY KEY, v text);
CREATE TABLE inv.hidden (id int PRIMARY KEY);
INSERT INTO inv.plain VALUES (1, 'one');
INSERT INTO inv.kinds VALUES (1, true, -128, 255, 1, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, 42, -9223372036854775808, 18446744073709551615, 1.5, 1234.567, 2.25, 12345.678,
  12345, 123.45, 12345, 12345678901234567890123456789012345.678901234567890123456789012345, 1.5, b'1', b'10110', 0xff00000000000001, 'abc', 'vc', 'Größe', 'tt', 'text ü€', 'mt', 'lt',
  0x00ff, 0x01, 0x02, 0x00ff10, 0x03, 0x04, '2024-02-29', '12:34:56', '12:34:56.789', '-838:59:58.999999', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789123', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789123', 2024,
  'ok', 'a,c', '{"a" : 1}', ST_GeomFromText('POINT(1.5 -2)'), ST_GeomFromText('LINESTRING(0 0,1 1)', 4326), '00000000-0000-0000-0000-000000000001');
INSERT INTO inv.kinds VALUES (2, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.1, -1.5, 1e300, -12345.678, -999, -999.99, 0, -0.000000000000000000000000000001, 0, b'0', b'00000', 0, '', '', '', '', '', '', '',
  '', '', '', '', '', '', '1000-01-01', '00:00', '-00:00:01', '838:59:58.5', '1969-12-31 23:59:59', '1000-01-01 00:00:00.001', '9999-12-31 23:59:59.999999', '1970-01-02 00:00:01', '2038-01-19 03:14:07.999', '1970-01-02 00:00:01.000001', 1901, 'a''b', '', '[]', NULL, NULL, NULL);
INSERT INTO inv.kinds (id, i) VALUES (3, 0);
INSERT INTO inv.nokey VALUES (1, 'a');
INSERT INTO inv.two_keys VALUES (1, 'a', 'v');
INSERT INTO inv.unique_only VALUES (1, 'c', 'v');
INSERT INTO inv.changing VALUES (1, 'a');
INSERT INTO inv.`Odd Name$` VALUES (1, 'w', 2);
INSERT INTO inv.defaults (id) VALUES (1);
