use std::time::UNIX_EPOCH;

use super::*;

const MS: Duration = Duration::from_millis(1);
const NOW: Duration = Duration::from_secs(1_700_000_000);

/// A server that told these lines, whose clock is so many milliseconds ahead. The answer took 2 ms.
fn server(lines: &[&str], ahead_ms: i64) -> ServerInfo {
    let round_trip = 2 * MS;
    let here = i64::try_from((NOW + MS).as_millis()).unwrap();
    let time = Duration::from_millis(u64::try_from(here + ahead_ms).unwrap());
    let pairs = lines.iter().filter_map(|line| line.split_once(':'));
    let info = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let described = Described {
        time,
        info: Ok(info.collect()),
    };
    let offset = ClockOffset::new(time, UNIX_EPOCH + NOW, round_trip);
    ServerInfo::new(described, offset)
}

const SOUND: [&str; 4] = [
    "redis_version:7.0.15",
    "role:master",
    "aof_enabled:1",
    "maxmemory_policy:noeviction",
];

fn with(line: &'static str) -> ServerInfo {
    let [version, rest @ ..] = SOUND;
    server(&[&[line, version], &rest[..]].concat(), 0)
}

fn examined(label: &str, lock: Probed, server: Result<ServerInfo, NodeError>) -> Examined {
    let round_trip = server.is_ok().then_some(2 * MS);
    Examined {
        label: Arc::from(label),
        lock,
        server,
        round_trip,
        down_since: None,
        node_timeout: 100 * MS,
        guard: GuardUse::Nobody,
    }
}

fn found(node: Examined) -> Vec<String> {
    let report = CheckReport::new(1, vec![node]);
    let findings = report.findings();
    findings.map(|(_, finding)| finding.to_string()).collect()
}

#[test]
fn nothing_is_the_matter_with_a_server_that_is_as_it_should_be() {
    let node = examined("a", Probed::Granted, Ok(server(&SOUND, 0)));
    assert_eq!(found(node), [] as [&str; 0]);
    let told = server(&["valkey_version:9.1.2", "redis_version:7.2.4"], 0);
    assert_eq!(told.version.as_deref(), Some("valkey 9.1.2"));
}

#[test]
fn each_thing_that_a_server_tells_against_itself_is_found() {
    let full = "maxmemory_policy:allkeys-lru";
    let table = [
        (with(full), None),
        (
            server(&[full, "maxmemory:1000000", "aof_enabled:1"], 0),
            Some("may delete locks when memory is full (allkeys-lru)"),
        ),
        (with("maxmemory:1000000"), None),
        (with("aof_enabled:0"), Some("forgets locks as it restarts")),
        (
            with("connected_slaves:2"),
            Some("has 2 replicas and waits for none"),
        ),
        (
            server(&["connected_slaves:2", "min_slaves_good_slaves:2"], 0),
            None,
        ),
        (server(&SOUND, 1001), None),
        (server(&SOUND, 1002), Some("its clock is 1.0 s ahead")),
        (server(&SOUND, -1001), None),
        (
            server(&SOUND, -7_200_000),
            Some("its clock is 7200.0 s behind"),
        ),
    ];
    for (server, expected) in table {
        let found = found(examined("a", Probed::Granted, Ok(server.clone())));
        match expected {
            None => assert!(found.is_empty(), "{server:?}: {found:?}"),
            Some(expected) => {
                assert_eq!(found.len(), 1, "{server:?}: {found:?}");
                assert!(found[0].starts_with(expected), "{found:?}");
            }
        }
    }
}

#[test]
fn why_a_node_grants_no_lock_is_told_once() {
    let quarantine = || NodeError::server("QUARANTINE 300 ms left");
    let denied =
        || NodeError::server("NOPERM this user has no permissions to run the 'evalsha' command");
    let refused = || NodeError::not_sent("connection refused");
    let replica = || Ok(with("role:slave"));
    let read_only = || Probed::Failed(NodeError::server("READONLY You can't write"));
    let table = [
        (
            Probed::Failed(quarantine()),
            Ok(server(&SOUND, 0)),
            "grants no lock yet: QUARANTINE",
        ),
        (
            Probed::Failed(refused()),
            Err(refused()),
            "grants no lock: connection refused",
        ),
        (
            Probed::Failed(denied()),
            Err(denied()),
            "refuses scripts: NOPERM",
        ),
        (
            Probed::Failed(denied()),
            Ok(server(&SOUND, 0)),
            "grants no lock: NOPERM",
        ),
        (read_only(), replica(), "is a replica"),
        (
            read_only(),
            Ok(server(&SOUND, 0)),
            "grants no lock: READONLY",
        ),
        (
            Probed::Twin(Arc::from("b")),
            Ok(server(&SOUND, 0)),
            "is the same server as b",
        ),
    ];
    for (lock, server, expected) in table {
        let report = CheckReport::new(1, vec![examined("a", lock, server)]);
        let findings: Vec<_> = report.findings().collect();
        assert_eq!(findings.len(), 1, "{findings:?}");
        let (label, finding) = findings[0];
        assert_eq!(label, Some("a"));
        assert!(finding.to_string().starts_with(expected), "{finding}");
        assert_eq!(report.severity(), Some(Severity::Error));
        assert!(!report.is_available());
    }
}

#[test]
fn a_clock_that_most_servers_contradict_is_that_of_this_machine() {
    let report = |ahead: &[i64]| {
        let node = |ms: &i64| examined("a", Probed::Granted, Ok(server(&SOUND, *ms)));
        let report = CheckReport::new(1, ahead.iter().map(node).collect());
        let findings = report
            .findings()
            .map(|(node, finding)| (node.is_some(), finding.to_string()));
        findings.collect::<Vec<_>>()
    };
    let own = "most servers say that the clock here is wrong: theirs are 60.0 s ahead";
    assert_eq!(report(&[60_000, 0, 60_000]), [(false, own.to_owned())]);
    // One server is as good as this machine, and so are two that say different things.
    let apart = |way| (true, format!("its clock is 60.0 s {way}"));
    assert_eq!(report(&[60_000]), [apart("ahead")]);
    assert_eq!(
        report(&[60_000, -60_000]),
        [apart("ahead"), apart("behind")]
    );
    assert_eq!(report(&[60_000, 0, 0]), [apart("ahead")]);
    assert_eq!(report(&[60_000, 0]), [apart("ahead")]);
    assert_eq!(report(&[]), []);
}

#[test]
fn an_answer_that_takes_more_than_half_of_its_time_is_slow() {
    let node = |round_trip| Examined {
        round_trip: Some(round_trip),
        ..examined("a", Probed::Granted, Ok(server(&SOUND, 0)))
    };
    assert_eq!(found(node(50 * MS)), [] as [&str; 0]);
    assert_eq!(
        found(node(51 * MS)),
        ["took 51 ms for an answer, and may take 100 ms"]
    );
}

#[test]
fn a_report_is_a_table_with_what_to_do_below() {
    let info = Err("NOPERM this user may not".to_owned());
    let silent = Described { time: NOW, info };
    let offset = ClockOffset::new(NOW + 5 * MS, UNIX_EPOCH + NOW, 2 * MS);
    let refused = || NodeError::not_sent("connection refused");
    let report = CheckReport::new(
        2,
        vec![
            examined("10.0.0.1:6379", Probed::Granted, Ok(server(&SOUND, 0))),
            examined(
                "10.0.0.2:6379",
                Probed::Granted,
                Ok(ServerInfo::new(silent, offset)),
            ),
            Examined {
                down_since: Some(UNIX_EPOCH),
                ..examined("c", Probed::Failed(refused()), Err(refused()))
            },
        ],
    );
    let expected = "\
node           locks  answer  server        role     clock    eviction    appendonly
10.0.0.1:6379  yes    2.0 ms  redis 7.0.15  primary  +0.0 ms  noeviction  yes
10.0.0.2:6379  yes    2.0 ms  -             -        +4.0 ms  -           -
c              no     -       -             -        -        -           -
locks can be acquired: 2 of 3 nodes grant them, 2 are needed
note: 10.0.0.2:6379: does not tell what it is: NOPERM this user may not. Allow the user +time and +info, for this check to \
see more; locks do not need it.
error: c: grants no lock: connection refused. Look whether the server runs and can be reached from here under \
this address.";
    assert_eq!(report.to_string(), expected);
}
