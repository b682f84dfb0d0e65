//! What Prometheus reads.

use lock_testkit::MemoryNode;

use crate::{exporter, locks, scenes};

/// The scenes in virtual time, and what is read afterwards.
fn read() -> String {
    let recorder = exporter().unwrap().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let nodes = MemoryNode::several(3);
            scenes::run(&locks(&nodes).unwrap(), &nodes).await.unwrap();
        });
    });
    recorder.handle().render()
}

#[test]
fn what_happened_is_counted_timed_and_gauged() {
    let text = read();
    for line in [
        r#"lock_wait_seconds_count{outcome="acquired"} 7"#,
        r#"lock_wait_seconds_count{outcome="contended"} 1"#,
        r#"lock_wait_seconds_count{outcome="unavailable"} 1"#,
        r#"lock_held_seconds_count{outcome="released"} 6"#,
        r#"lock_held_seconds_bucket{outcome="released",le="0.02"} 5"#,
        r#"lock_extensions_total{outcome="extended"} 1"#,
        r#"lock_extensions_total{outcome="failed"} 1"#,
        r#"lock_losses_total{loss="revoked"} 1"#,
        r#"lock_node_up{node="memory-1"} 1"#,
        r#"lock_node_up{node="memory-2"} 0"#,
        r#"lock_node_up{node="memory-3"} 0"#,
        "lock_quorum_up 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

/// Those of `docs/metrics.md`, no more and no less.
#[test]
fn the_docs_name_every_metric() {
    let docs = include_str!("../../docs/metrics.md");
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut named = rows.filter_map(|row| row.split(['`', '{']).next());
    let mut named = named.by_ref().collect::<Vec<_>>();
    named.sort_unstable();
    let text = read();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut read = types
        .filter_map(|line| line.split(' ').next())
        .collect::<Vec<_>>();
    read.sort_unstable();
    assert_eq!(named, read);
}
