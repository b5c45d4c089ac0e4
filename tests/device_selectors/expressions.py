"""Expressions about one device, for comparing what Berth and Kubernetes say of them."""

from typing import Any

DRIVER = "gpu.example.com"
DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100-SXM4-80GB"},
        "index": {"int": 3},
        "mig": {"bool": True},
        "driverVersion": {"version": "1.20.3-rc.1+build5"},
        "other.example.com/address": {"string": "10.1.2.3"},
        "other.example.com/network": {"string": "10.1.0.0/16"},
        "other.example.com/address6": {"string": "fd00::1"},
        "other.example.com/url": {"string": "https://user@host.example.com:8443/a/b?x=1&y=2&x=3"},
        "other.example.com/time": {"string": "2026-02-03T04:05:06Z"},
        "other.example.com/empty": {"string": ""},
        "other.example.com/list": {"string": "c,a,b"},
    },
    "capacity": {
        "memory": {"value": "80Gi"},
        "cores": {"value": "1500m"},
        "other.example.com/bandwidth": {"value": "100G"},
    },
    "allowMultipleAllocations": True,
}

EXPRESSIONS = r"""
true
false
!true
1
"a"
[true]
{"a": true}
null == null
device.driver == "gpu.example.com"
device.driver.startsWith("gpu.")
device.driver.endsWith(".com") && device.driver.contains("example")
device.driver.matches("^gpu\\..*com$")
device.driver.matches("^[a-z.]+$")
device.driver.matches("[")
device.driver.size() == 15
size(device.driver) > 20
device.allowMultipleAllocations
!device.allowMultipleAllocations
device.nothing
device.attributes
device.attributes["gpu.example.com"]
device.attributes["gpu.example.com"].model
device.attributes["gpu.example.com"].mig
device.attributes["gpu.example.com"].index
device.attributes["gpu.example.com"].driverVersion
device.attributes["gpu.example.com"].missing
device.attributes["gpu.example.com"].missing || true
true || device.attributes["gpu.example.com"].missing
device.attributes["gpu.example.com"].missing && false
device.attributes["gpu.example.com"].missing && true
device.attributes["none"].missing
device.attributes.none.missing == 1
has(device.attributes["gpu.example.com"].model)
has(device.attributes["gpu.example.com"].missing)
has(device.attributes["none"].missing)
has(device.attributes.none)
has(device.attributes["none"])
"none" in device.attributes
"gpu.example.com" in device.attributes
"model" in device.attributes["gpu.example.com"]
"model" in device.attributes["none"]
size(device.attributes) == 2
device.attributes.size() == 3
size(device.attributes["none"]) == 0
device.attributes["gpu.example.com"].size() == 4
device.capacity.size() == 2
device.attributes["gpu.example.com"].model == "A100-SXM4-80GB"
device.attributes["gpu.example.com"].model != "x"
device.attributes["gpu.example.com"].model == 1
device.attributes["gpu.example.com"].index == 3
device.attributes["gpu.example.com"].index == 3.0
device.attributes["gpu.example.com"].index == 3u
device.attributes["gpu.example.com"].index < 3.5
device.attributes["gpu.example.com"].index > 2u
device.attributes["gpu.example.com"].index > "a"
device.attributes["gpu.example.com"].index + 1 == 4
device.attributes["gpu.example.com"].index - 5 == -2
device.attributes["gpu.example.com"].index * 2 == 6
device.attributes["gpu.example.com"].index / 2 == 1
device.attributes["gpu.example.com"].index % 2 == 1
device.attributes["gpu.example.com"].index / 0 == 1
device.attributes["gpu.example.com"].index % 0 == 1
-device.attributes["gpu.example.com"].index == -3
-device.attributes["gpu.example.com"].model == "x"
!device.attributes["gpu.example.com"].index
device.attributes["gpu.example.com"].index + "a" == "3a"
device.attributes["gpu.example.com"].model + "x" == "A100-SXM4-80GBx"
device.attributes["gpu.example.com"].index in [1, 2, 3]
device.attributes["gpu.example.com"].model in ["A100-SXM4-80GB", "H100"]
device.attributes["gpu.example.com"].model in [1, 2]
device.attributes["gpu.example.com"].mig == true
device.attributes["gpu.example.com"].mig ? true : false
device.attributes["gpu.example.com"].index ? true : false
device.attributes["gpu.example.com"]["model"] == "A100-SXM4-80GB"
device.attributes["gpu.example.com"][1]
device["driver"] == "x"
device.attributes["gpu.example.com"].index > 2 && device.attributes["gpu.example.com"].index <= 3
device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.20.2"))
device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("1.20.3"))
device.attributes["gpu.example.com"].driverVersion.compareTo(semver("1.20.3-rc.1")) == 0
device.attributes["gpu.example.com"].driverVersion == semver("1.20.3-rc.1")
device.attributes["gpu.example.com"].driverVersion == semver("1.20.3-rc.1+build5")
device.attributes["gpu.example.com"].driverVersion == semver("1.20.3-rc.1+other")
device.attributes["gpu.example.com"].driverVersion == "1.20.3-rc.1"
device.attributes["gpu.example.com"].driverVersion != 7
"1.20.3" == device.attributes["gpu.example.com"].driverVersion
device.attributes["gpu.example.com"].driverVersion.major() == 1
cel.bind(v, device.attributes["gpu.example.com"].driverVersion, v.minor() == 20 && v.patch() == 3)
device.attributes["gpu.example.com"].model.isGreaterThan(semver("1.0.0"))
device.attributes["gpu.example.com"].driverVersion.isGreaterThan(quantity("1"))
device.attributes["gpu.example.com"].driverVersion.isGreaterThan("1.0.0")
semver("1.2.3-alpha").isLessThan(semver("1.2.3"))
semver("1.2.3-alpha.1").isLessThan(semver("1.2.3-alpha.beta"))
semver("1.2.3-2").isLessThan(semver("1.2.3-10"))
semver("1.2.3-a").isLessThan(semver("1.2.3-a.1"))
semver("01.2.3").major() == 1
semver("1.2").major() == 1
semver("v1.2.3").major() == 1
semver("1.2.3-01").major() == 1
semver("1.2.x").major() == 1
semver("").major() == 1
semver("v1", true) == semver("1.0.0")
semver("01.02.03", true) == semver("1.2.3")
semver("1.2-rc", true).major() == 1
isSemver("1.0.0") && !isSemver("1.0") && isSemver("1.0", true) && !isSemver("x", true)
device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))
device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0
device.capacity["gpu.example.com"].memory == quantity("81920Mi")
device.capacity["gpu.example.com"].memory != quantity("1")
device.capacity["gpu.example.com"].memory > quantity("1")
device.capacity["gpu.example.com"].memory == "80Gi"
device.capacity["gpu.example.com"].memory.isLessThan(quantity("1Ti"))
device.capacity["gpu.example.com"].memory.asInteger() == 85899345920
device.capacity["gpu.example.com"].cores.asInteger() == 1
device.capacity["gpu.example.com"].cores.isInteger()
device.capacity["gpu.example.com"].cores.asApproximateFloat() == 1.5
device.capacity["gpu.example.com"].cores.asApproximateFloat() > 1.4
device.capacity["gpu.example.com"].cores.add(quantity("500m")) == quantity("2")
device.capacity["gpu.example.com"].cores.add(1).compareTo(quantity("2500m")) == 0
device.capacity["gpu.example.com"].cores.sub(quantity("1")).isLessThan(quantity("1"))
device.capacity["gpu.example.com"].cores.sub(2).isLessThan(quantity("0"))
sign(device.capacity["gpu.example.com"].cores) == 1
device.capacity["gpu.example.com"].cores.sign() == 1
device.capacity["gpu.example.com"].missing.isGreaterThan(quantity("1"))
device.capacity["none"].missing.isGreaterThan(quantity("1"))
device.capacity["other.example.com"].bandwidth.isGreaterThan(quantity("99G"))
quantity("x").isInteger()
quantity("1Gi ").isInteger()
quantity("").isInteger()
isQuantity("1Gi") && !isQuantity("1Gb") && isQuantity("-5m") && isQuantity("1e3")
quantity("1e3") == quantity("1k")
quantity(1) == quantity("1")
device.attributes.exists(d, d == "gpu.example.com")
device.attributes.exists(d, d == "none")
device.attributes.all(d, d.endsWith("example.com"))
device.attributes["gpu.example.com"].exists(a, a == "model")
device.attributes["gpu.example.com"].exists_one(a, a == "model")
device.attributes["gpu.example.com"].existsOne(a, a == "model")
device.attributes["gpu.example.com"].all(a, a.size() > 2)
device.attributes["gpu.example.com"].filter(a, a.startsWith("m")).size() == 2
device.attributes["gpu.example.com"].map(a, a.size()).sum() > 10
device.attributes["gpu.example.com"].model.exists(a, a == "x")
device.attributes["gpu.example.com"].index.map(a, a) == [3]
device.attributes["gpu.example.com"].all(k, v, k != "" )
device.attributes["gpu.example.com"].exists(k, v, k == "index" && v == 3)
device.attributes["gpu.example.com"].exists(k, v, v == 3)
device.attributes["gpu.example.com"].existsOne(k, v, v == 3)
device.attributes["gpu.example.com"].transformList(k, v, k).size() == 4
device.attributes["gpu.example.com"].transformList(k, v, v == 3, k) == ["index"]
device.attributes["gpu.example.com"].transformMap(k, v, k == "index", v) == {"index": 3}
device.attributes["gpu.example.com"].transformMapEntry(k, v, k == "index", {"i": v}) == {"i": 3}
[1, 2, 3].exists(i, v, i == 2 && v == 3)
[1, 2, 3].transformList(i, v, i * v) == [0, 2, 6]
[1, 2, 3].transformMap(i, v, v) == {0: 1, 1: 2, 2: 3}
[1, 2, 3].all(x, x > 0)
[1, 2, 3].exists(x, x / 0 == 1 || x == 2)
[1, 2, 3].all(x, x / (x - 2) > 5 || x < 0)
[1, 2, 3].exists(x, x / 0 == 1)
[1, 2, 3].map(x, x * 2) == [2, 4, 6]
[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]
[3, 1, 2].sort() == [1, 2, 3]
["b", "a"].sortBy(x, x) == ["a", "b"]
[3, 1, 2].sortBy(x, -x) == [3, 2, 1]
[1, 2, 3].reverse() == [3, 2, 1]
[1, 2, 2, 1].distinct() == [1, 2]
[[1], [2, [3]]].flatten() == [1, 2, [3]]
[[1], [2]].flatten() == [1, 2]
[1, 2, 3].slice(1, 2) == [2]
[1, 2, 3].slice(1, 5) == [2]
[1, 2, 3].slice(2, 1) == [2]
lists.range(3) == [0, 1, 2]
[1, 2].first() == optional.of(1)
[1, 2].last().value() == 2
[].first().hasValue()
[1, 2, 3].isSorted()
[3, 2].isSorted()
["a", "b"].isSorted()
[1, 2, 3].sum() == 6
[1.5, 2.5].sum() == 4.0
["a"].sum() == "a"
[1, 2, 3].min() == 1 && [1, 2, 3].max() == 3
[].min() == 1
[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1
[1, "a"].size() == 2
[1, 2.0].size() == 2
{"a": 1, "b": "c"}.size() == 2
{"a": 1, "a": 2}.size() == 1
[1, 2, 3][1] == 2
[1, 2, 3][5] == 2
[1, 2, 3]["a"] == 2
{"a": 1}["a"] == 1
{"a": 1}.a == 1
{"a": 1}["b"] == 1
{"a": {"b": true}}.a.b
sets.contains([1, 2, 3], [1, 2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1, 1])
sets.contains([1], [2])
sets.intersects([], [1])
optional.of(1).hasValue()
optional.none().hasValue()
optional.none().value() == 1
optional.none().orValue(5) == 5
optional.of(1).orValue(5) == 1
optional.none().or(optional.of(2)).value() == 2
optional.ofNonZeroValue(0).hasValue()
device.attributes["gpu.example.com"].?missing.hasValue()
device.attributes["gpu.example.com"].?index.orValue(0) == 3
device.attributes["gpu.example.com"].?missing.orValue("x") == "x"
device.attributes[?"none"].?missing.hasValue()
device.attributes.?none.hasValue()
device.attributes["gpu.example.com"][?"index"].orValue(0) == 3
device.attributes["gpu.example.com"].?index.optMap(x, x + 1).orValue(0) == 4
device.attributes["gpu.example.com"].?missing.optMap(x, x + 1).orValue(0) == 0
[1, 2][?5].hasValue()
[?optional.of(1), ?optional.none()] == [1]
{?"a": optional.of(1), ?"b": optional.none()} == {"a": 1}
cel.bind(x, device.attributes["gpu.example.com"], x.index == 3 && x.mig)
cel.bind(x, 5, cel.bind(y, 6, x + y == 11))
"hello".charAt(1) == "e"
"hello".charAt(9) == "e"
"hello".indexOf("l") == 2 && "hello".lastIndexOf("l") == 3
"hello".indexOf("l", 3) == 3
"hello".indexOf("z") == -1
"hello".indexOf("", 2) == 2
"hello".indexOf("l", 9) == 2
["a", "b"].join() == "ab" && ["a", "b"].join("-") == "a-b"
"HeLLo".lowerAscii() == "hello" && "HeLLo".upperAscii() == "HELLO"
"ÄA".lowerAscii() == "Äa"
"aXbXc".replace("X", "-") == "a-b-c" && "aXbXc".replace("X", "-", 1) == "a-bXc"
"a,b,c".split(",") == ["a", "b", "c"] && "a,b,c".split(",", 2) == ["a", "b,c"]
"abc".split("") == ["a", "b", "c"]
"a,b".split(",", 0) == []
"hello".substring(2) == "llo" && "hello".substring(1, 3) == "el"
"hello".substring(3, 1) == ""
"hello".substring(9) == ""
"  x ".trim() == "x"
"%s is %d".format(["x", 5]) == "x is 5"
"%.2f".format([1.5]) == "1.50"
"%x %X %b %o".format([255, 255, 5, 8]) == "ff FF 101 10"
"%s".format([[1, 2]]) == "[1, 2]"
"%s".format([{"a": 1}]) == "{a: 1}"
"%s".format([true]) == "true"
"%d".format(["x"]) == "x"
"%q".format(["x"]) == "x"
"%s".format([]) == "x"
"%s".format([{"a": 1}]) == '{"a":1}'
"%s".format([{"c": "d", "a": "b"}]) == '{"a":"b", "c":"d"}'
"%s".format([["a"]]) == '["a"]'
strings.quote("a\"b") == "\"a\\\"b\""
"abc".reverse() == "cba"
"foo123bar45".find("[0-9]+") == "123"
"foo".find("[0-9]+") == ""
"foo123bar45".findAll("[0-9]+") == ["123", "45"]
"foo123bar45".findAll("[0-9]+", 1) == ["123"]
"foo".findAll("o*") == ["", "oo"]
"foo".findAll("[0-9]+") == []
"aaa".find("(a+)+$") == "aaa"
"foo".find("(") == ""
"abc".matches("B") || "abc".matches("(?i)B")
"a\nb".matches("a.b") || "a\nb".matches("(?s)a.b")
"a\nb".matches("^b$") || "a\nb".matches("(?m)^b$")
"foo.bar".matches("^[[:alpha:]]+\\.\\w+$")
"x-1".matches("^\\D-\\d$")
"aaa".find("a{2}") == "aa" && "aaa".find("a{1,2}?") == "a"
"abcabc".find("(?:abc){2}") == "abcabc"
"ab".find("a|ab") == "a" && "ab".find("ab|a") == "ab"
"Straße".matches("\\pL+ß")
isIP("10.0.0.1") && !isIP("10.0.0.256") && isIP("::1") && !isIP("::ffff:10.0.0.1") && !isIP("fe80::1%eth0")
ip(device.attributes["other.example.com"].address).family() == 4
ip(device.attributes["other.example.com"].address6).family() == 6
ip("127.0.0.1").isLoopback() && ip("0.0.0.0").isUnspecified() && ip("224.0.0.1").isLinkLocalMulticast()
ip("169.254.1.1").isLinkLocalUnicast() && ip("10.0.0.1").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast()
ip("ff02::1").isLinkLocalMulticast() && ip("fe80::1").isLinkLocalUnicast() && ip("fd00::1").isGlobalUnicast()
ip.isCanonical("10.0.0.1") && !ip.isCanonical("2001:DB8::1") && ip.isCanonical("2001:db8::1")
ip("x").family() == 4
ip("fe80::1%eth0").family() == 6
string(ip("10.0.0.1")) == "10.0.0.1"
ip("10.0.0.1") == ip("10.0.0.1")
ip("10.0.0.1") == "10.0.0.1"
cidr(device.attributes["other.example.com"].network).containsIP(device.attributes["other.example.com"].address)
cidr("10.0.0.0/8").containsIP(ip("11.0.0.1"))
cidr("10.0.0.0/8").containsIP("fd00::1")
cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))
cidr("10.1.2.3/8").ip() == ip("10.1.2.3") && cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8")
cidr("10.0.0.0/8").prefixLength() == 8 && string(cidr("10.0.0.0/8")) == "10.0.0.0/8"
isCIDR("10.0.0.0/8") && !isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/33") && !isCIDR("::ffff:10.0.0.0/104")
cidr("x").prefixLength() == 1
url(device.attributes["other.example.com"].url).getHost() == "host.example.com:8443"
url(device.attributes["other.example.com"].url).getHostname() == "host.example.com"
url(device.attributes["other.example.com"].url).getPort() == "8443" && url("https://a").getPort() == ""
url(device.attributes["other.example.com"].url).getScheme() == "https"
url(device.attributes["other.example.com"].url).getEscapedPath() == "/a/b"
url("https://a/b c").getEscapedPath() == "/b%20c"
url(device.attributes["other.example.com"].url).getQuery() == {"x": ["1", "3"], "y": ["2"]}
url("/path").getHost() == "" && url("https://[::1]:80/").getHostname() == "::1"
isURL("https://a.b/c") && !isURL("a.b") && isURL("/abs") && !isURL("") && !isURL("../rel")
url("x").getHost() == ""
!format.dns1123Label().validate("my-name").hasValue()
format.dns1123Label().validate("My_Name").hasValue()
!format.dns1123Subdomain().validate("a.b-c.d").hasValue() && format.dns1123Subdomain().validate("a..b").hasValue()
!format.dns1035Label().validate("abc").hasValue() && format.dns1035Label().validate("1abc").hasValue()
!format.qualifiedName().validate("a.b/c").hasValue() && format.qualifiedName().validate("a b").hasValue()
!format.dns1123LabelPrefix().validate("abc-").hasValue() && format.dns1123Label().validate("abc-").hasValue()
!format.labelValue().validate("").hasValue() && format.labelValue().validate("-").hasValue()
!format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue() && format.uuid().validate("x").hasValue()
!format.date().validate("2026-01-02").hasValue() && format.date().validate("2026-13-02").hasValue()
!format.datetime().validate("2026-01-02T03:04:05Z").hasValue() && format.datetime().validate("x").hasValue()
!format.byte().validate("aGVsbG8=").hasValue() && !format.uri().validate("https://a").hasValue()
format.named("dns1123Label").hasValue() && !format.named("none").hasValue()
int("5") == 5 && int(5.9) == 5 && int(-5.9) == -5 && int(5u) == 5
int("x") == 5
int("99999999999999999999") == 5
int(1e300) == 5
uint(5) == 5u && uint("7") == 7u
uint(-1) == 5u
double("1.5") == 1.5 && double(2) == 2.0
double("x") == 1.5
string(5) == "5" && string(1.5) == "1.5" && string(true) == "true" && string(5u) == "5" && string(b"a") == "a"
string(1e6) == "1e+06" && string(123456.0) == "123456" && string(1e21) == "1e+21" && string(0.00001) == "1e-05"
string(100000.0) == "100000" && string(1234567.5) == "1.2345675e+06"
bool("true") && bool("T") && !bool("0")
bool("x")
bytes("a") == b"a"
b"\x61\xff" == b"a\377"
type(1) == int && type("a") == string && type([1]) == list && type({"a": 1}) == map && type(null) == null_type
type(1) == string
dyn(1) == 1
dyn(1) == "a"
dyn(true)
dyn([1, "a"]).size() == 2
1 == 1.0
1 < 1.5 && 2u > 1 && 1.0 <= 1
"a" < "b" && false < true && b"a" < b"b"
1 == "a"
"a" + 1 == "a1"
9223372036854775807 + 1 > 0
-9223372036854775808 - 1 < 0
9223372036854775807 * 2 > 0
-9223372036854775808 == -9223372036854775807 - 1
-(-9223372036854775808) > 0
9223372036854775808 > 0
18446744073709551615u + 1u > 0u
1u - 2u > 0u
0x1F == 31 && 0xFFu == 255u
1.5e3 == 1500.0 && .5 == 0.5
7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 7 % -3 == 1
7.0 / 0.0 > 1e300
duration("1h") == duration("60m") && duration("1h30m") > duration("1h")
duration("1.5s") + duration("500ms") == duration("2s")
duration("x") == duration("1s")
duration("90m").getHours() == 1 && duration("90m").getMinutes() == 90 && duration("1500ms").getSeconds() == 1
timestamp(device.attributes["other.example.com"].time) > timestamp("2025-01-01T00:00:00Z")
timestamp("2026-02-03T04:05:06Z").getFullYear() == 2026 && timestamp("2026-02-03T04:05:06Z").getMonth() == 1
timestamp("2026-02-03T04:05:06Z").getDayOfWeek() == 2 && timestamp("2026-02-03T04:05:06Z").getHours("+02:00") == 6
timestamp("2026-02-03T04:05:06Z") - timestamp("2026-02-03T04:05:00Z") == duration("6s")
timestamp("x") > timestamp("2025-01-01T00:00:00Z")
string(timestamp("2026-02-03T04:05:06Z")) == "2026-02-03T04:05:06Z"
string(duration("90s")) == "90s"
'single' == "single" && r"a\b" == "a\\b" && '''a''' == "a" && "\u0041\x42\103" == "ABC"
"a" /* no */ == "a"
"a" == "a" // a comment
device . driver == "gpu.example.com"
(1 + 2) * 3 == 9 && 1 + 2 * 3 == 7 && -2 + 3 == 1 && !false && !!true
true ? false ? false : true : false
1 < 2 == true
unknown
unknown()
"a".unknown()
device.driver.unknown
has(device)
[1, 2, 3
1 +
"unterminated
a b
?!
if
device.attributes["gpu.example.com"].model.lowerAscii().contains("a100")
device.attributes["gpu.example.com"].model.split("-").size() == 3
device.attributes["gpu.example.com"].model.split("-")[0] == "A100"
device.attributes["gpu.example.com"].index.lowerAscii() == "3"
device.attributes["gpu.example.com"].model.find("[0-9]+GB") == "80GB"
int(device.attributes["gpu.example.com"].model.find("[0-9]+GB").replace("GB", "")) >= 40
device.attributes["other.example.com"].list.split(",").sort().join() == "abc"
device.attributes["gpu.example.com"].model.includes("A100-SXM4-80GB")
[1, 2].includes(2)
["a"].includes(1)
device.attributes["gpu.example.com"].exists(a, device.attributes["gpu.example.com"][a] == 3)
device.attributes["gpu.example.com"].map(a, device.attributes["gpu.example.com"][a]).exists(v, v == true)
device.capacity["gpu.example.com"].all(c, device.capacity["gpu.example.com"][c].isGreaterThan(quantity("1")))
device.capacity.exists(d, device.capacity[d].exists(c, c == "bandwidth"))
device.attributes["gpu.example.com"] == {"a": 1}
device.attributes["none"] == {}
"model" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].model == "A100-SXM4-80GB"
!("missing" in device.attributes["gpu.example.com"]) || device.attributes["gpu.example.com"].missing
device.attributes["gpu.example.com"].mig && device.attributes["gpu.example.com"].index
device.attributes["gpu.example.com"].index || true
false || device.attributes["gpu.example.com"].index
device.attributes["gpu.example.com"].index && device.attributes["gpu.example.com"].model
"a" in {"a": 1} && !("b" in {"a": 1}) && 1 in {1: 2}
1.0 in [1, 2]
{1: "a"}[1.0] == "a"
{1: "a"}[1u] == "a"
[1, 2][1.0] == 2
1 in ["a"]
"a" in "abc"
"é1".findAll("(\\b+[ab]*|\\d*)*") == ["", "1"]
"axa".find("(x*|[ab]*)*") == "axa"
quantity("1Gi") == null
device.attributes["gpu.example.com"].index.startsWith("3")
device.attributes["gpu.example.com"].index.matches("3")
device.attributes["gpu.example.com"].index.find(device.driver) == "3"
device.attributes["gpu.example.com"].index.size() == 1
device.attributes["gpu.example.com"].index.major == 1
device.attributes["gpu.example.com"].model[0] == "A"
device.attributes["gpu.example.com"].driverVersion > 1
-device.attributes["gpu.example.com"].driverVersion == 1
duration(device.attributes["gpu.example.com"].model) > duration("1s")
""".strip().splitlines()
