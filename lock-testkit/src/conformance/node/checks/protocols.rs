//! Both versions of the protocol.

use lock_core::Reply;

use crate::conformance::node::cx::{
    NodeCx, TTL, acquire, acquire_or_report, extend_all, release, release_keeping, send,
};
use crate::conformance::node::harness::{Access, Entry, Protocol};
use crate::conformance::{CheckResult, Failure, expect_eq};

/// One reply of each shape, over this protocol.
async fn replies_over(cx: &NodeCx, protocol: Protocol) -> CheckResult {
    let node = cx.bed().connect(&Access::protocol(protocol)).await?;
    cx.until_answers(&*node).await?;
    cx.bed()
        .put(b"foreign", &Entry::forever("h\0lder\r\n"))
        .await?;
    cx.bed().put(b"hash", &Entry::OtherType).await?;
    let token = cx.token();
    let holder = Reply::Array(vec![Reply::Bytes(b"h\0lder\r\n".to_vec()), Reply::Int(-1)]);
    let keyless = Reply::Array(vec![Reply::Nil, Reply::Int(-1)]);
    let keys = ["mine", "foreign", "free"].map(|key| (key.as_bytes(), token, TTL));
    let each = Reply::Array([1, -1, 0].map(Reply::Int).to_vec());
    for (command, expected) in [
        (acquire("mine", token), Reply::ok()),
        (acquire("mine", token), Reply::Nil),
        (acquire_or_report("mine", token), Reply::Int(1)),
        (acquire_or_report("foreign", token), holder),
        (acquire_or_report("hash", token), keyless),
        (extend_all(keys), each),
        (release("foreign", token), Reply::Int(-1)),
        (release_keeping("mine", token, TTL / 2), Reply::Int(1)),
        (release("mine", token), Reply::Int(1)),
        (release("mine", token), Reply::Int(0)),
    ] {
        let call = send(&*node, &command, crate::conformance::node::cx::LONG);
        let answer = cx.ends_soon("a call", call).await?;
        let reply = answer.map_err(|error| {
            Failure::new(
                format!("{expected:?} over {protocol:?}"),
                crate::conformance::node::calls::told(&error),
            )
        })?;
        expect_eq(&format!("the reply over {protocol:?}"), &expected, &reply)?;
    }
    Ok(())
}

pub(crate) async fn resp2_replies_are_read_as_they_are(cx: &NodeCx) -> CheckResult {
    replies_over(cx, Protocol::Resp2).await
}

pub(crate) async fn resp3_replies_are_read_as_those_of_resp2(cx: &NodeCx) -> CheckResult {
    replies_over(cx, Protocol::Resp3).await
}
