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
/// Dropping the subscription ends it: the sender then reports that its reader is gone.
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
    /// Makes a subscription that keeps at most `capacity` events, and at least one, that have not been
    /// read.
    #[must_use]
    pub fn channel(capacity: usize) -> (SubscriptionSender, Self) {
        // The channel adds one place for its sender, which is never cloned.
        let (sender, receiver) = mpsc::channel(capacity.saturating_sub(1));
        (
            SubscriptionSender { events: sender },
            Self { events: receiver },
        )
    }

    /// Waits for the next event. Returns `None` once the sender is dropped and all events are read.
    ///
    /// # Cancel safety
    ///
    /// A dropped call loses no event.
    pub async fn next(&mut self) -> Option<SubscriptionEvent> {
        self.events.next().await
    }
}

impl SubscriptionSender {
    /// Hands an event on without waiting. Returns whether it was taken: it is not if the reader is too
    /// slow or gone. A slow reader loses nothing that matters, since a wake-up that waits to be read
    /// already tells it to look.
    pub fn send(&mut self, event: SubscriptionEvent) -> bool {
        self.events.try_send(event).is_ok()
    }

    /// Returns whether the reader is gone.
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
