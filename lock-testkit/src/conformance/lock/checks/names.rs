//! What is locked.

use std::sync::Arc;

use super::long;
use crate::conformance::lock::cx::LockCx;
use crate::conformance::{CheckResult, Failure, expect};

/// Holds all names at the same time, by two locks in turn: none is in the way of another.
async fn lock_all(cx: &LockCx, names: &[&[u8]]) -> CheckResult {
    let locks = [Arc::clone(cx.lock()), cx.rival().await?];
    let mut guards = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let Some(guard) = cx.ask(&locks[i % 2], &long(name)).await? else {
            return Err(Failure::new(
                format!("{} to be free", shown(name)),
                "`None`, though only other names are locked",
            ));
        };
        let resource = shown(guard.resource());
        let is_right = guard.resource() == *name;
        expect(is_right, &format!("a guard of {}", shown(name)), resource)?;
        guards.push(guard);
    }
    for (i, name) in names.iter().enumerate() {
        cx.expect_taken(&locks[(i + 1) % 2], &long(name)).await?;
    }
    // Every second one is released, and the others stay.
    for guard in guards.iter().step_by(2) {
        drop(guard.release().await);
    }
    for guard in guards.iter().skip(1).step_by(2) {
        expect(guard.is_valid(), "the others to stay locked", guard)?;
        cx.expect_taken(cx.lock(), &long(guard.resource())).await?;
    }
    drop(guards);
    cx.expect_nothing_left().await
}

/// Returns the start of a name, for a message.
fn shown(name: &[u8]) -> String {
    let start = name[..name.len().min(24)].escape_ascii();
    format!("{start} ({} bytes)", name.len())
}

pub(crate) async fn names_are_independent(cx: &LockCx) -> CheckResult {
    lock_all(cx, &[b"invoice-7", b"invoice-8", b"report", b"7"]).await
}

pub(crate) async fn names_are_any_bytes(cx: &LockCx) -> CheckResult {
    let every_byte: Vec<u8> = (0..=255).collect();
    let long_name = vec![b'x'; 8 * 1024];
    let mut long_twin = long_name.clone();
    long_twin.push(b'x');
    lock_all(
        cx,
        &[
            &every_byte,
            &long_name,
            &long_twin,
            "r\u{e4}tsel \u{1f512}".as_bytes(),
            b"../{a}*?[b]\r\n$0\r\n",
            &[0],
        ],
    )
    .await
}

pub(crate) async fn names_that_look_alike_are_different(cx: &LockCx) -> CheckResult {
    let names: [&[u8]; 16] = [
        b"name",
        b"name\0",
        b"name\0tail",
        b"Name",
        b"NAME",
        b"nam",
        b"names",
        b" name",
        b"name ",
        b"name\n",
        b"na/me",
        b"na:me",
        // Neither is text.
        &[0xff],
        &[0xfe],
        // One letter, encoded in two ways.
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
    ];
    lock_all(cx, &names).await
}
