//! A stream of wake-ups.

use futures::StreamExt;
use futures::channel::mpsc;

/// What comes over a [`Subscription`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// A message was published on the channel.
    Message(Vec<u8>),
    /// The connection was lost and is back: messages may have been missed.
    Reconnected,
}

/// A stream of wake-ups from one node, see [`RedisNode::subscribe`](super::RedisNode::subscribe).
///
/// A backend makes one with [`Subscription::channel`] and feeds the sender from its client.
/// Dropping the subscription ends it: the sender then reports that nobody listens.
#[derive(Debug)]
pub struct Subscription {
    events: mpsc::Receiver<SubscriptionEvent>,
}

/// The end of a [`Subscription`] that a backend feeds.
#[derive(Debug)]
pub struct SubscriptionSender {
    events: mpsc::Sender<SubscriptionEvent>,
}

impl Subscription {
    /// A subscription that keeps at most `capacity` events (at least one) that were not read yet.
    #[must_use]
    pub fn channel(capacity: usize) -> (SubscriptionSender, Self) {
        // The channel adds one place for its sender, which is never cloned.
        let (sender, receiver) = mpsc::channel(capacity.saturating_sub(1));
        (
            SubscriptionSender { events: sender },
            Self { events: receiver },
        )
    }

    /// The next event, or `None` after the sender was dropped and all events were read.
    ///
    /// Cancel safe: a dropped call loses no event.
    pub async fn next(&mut self) -> Option<SubscriptionEvent> {
        self.events.next().await
    }
}

impl SubscriptionSender {
    /// Hands an event on without waiting; `false` if it was not taken, because the reader is too
    /// slow or gone. A slow reader loses nothing that matters: a wake-up that waits to be read
    /// says already that it should look.
    pub fn send(&mut self, event: SubscriptionEvent) -> bool {
        self.events.try_send(event).is_ok()
    }

    /// Whether the reader is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.events.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn a_full_subscription_keeps_what_it_has_and_says_that_more_was_not_taken() {
        let (mut sender, mut subscription) = Subscription::channel(1);
        assert!(sender.send(SubscriptionEvent::Message(b"a".to_vec())));
        assert!(!sender.send(SubscriptionEvent::Reconnected));
        drop(sender);
        let first = block_on(subscription.next());
        assert_eq!(first, Some(SubscriptionEvent::Message(b"a".to_vec())));
        assert_eq!(block_on(subscription.next()), None);
    }

    #[test]
    fn a_sender_notices_that_its_reader_is_gone() {
        let (mut sender, subscription) = Subscription::channel(4);
        assert!(!sender.is_closed());
        drop(subscription);
        assert!(sender.is_closed());
        assert!(!sender.send(SubscriptionEvent::Reconnected));
    }
}
