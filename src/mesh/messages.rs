//! The message list: the last texts in and out, for showing.
//!
//! Owns a bounded ring in memory and what is known of each outgoing part. Must not keep a confirmation code: texts
//! come here masked.

use std::collections::VecDeque;

use super::view::{Delivery, MessageView};
use crate::assistant::TurnId;
use crate::node::{NodeNum, PacketId};

/// Messages that are kept.
pub const MAX_MESSAGES: usize = 500;

/// The ring, newest last.
#[derive(Debug, Default)]
pub struct Messages {
    rows: VecDeque<Row>,
}

#[derive(Debug)]
struct Row {
    view: MessageView,
    part: Option<(TurnId, usize)>,
}

impl Messages {
    /// How many are kept.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A text came in.
    pub fn push_in(&mut self, view: MessageView) {
        self.push(Row { view, part: None });
    }

    /// A part went out. Sent again before it is known to have arrived, it is still the same message.
    pub fn push_out(&mut self, reply: &TurnId, part: usize, view: MessageView) {
        let known = self.row_of(reply, part).filter(|row| {
            row.view.text == view.text && row.view.delivery != Some(Delivery::Delivered)
        });
        match known {
            Some(row) => {
                row.view.id = view.id;
                row.view.delivery = view.delivery;
            }
            None => self.push(Row { view, part: Some((reply.clone(), part)) }),
        }
    }

    /// A text that had been accepted is not answered after all.
    pub fn refused(&mut self, from: NodeNum, id: PacketId, reason: &str) {
        let row = self
            .rows
            .iter_mut()
            .rev()
            .find(|row| row.part.is_none() && row.view.node == from && row.view.id == id);
        if let Some(row) = row {
            row.view.ignored = Some(reason.to_owned());
        }
    }

    /// Something was learnt of a part.
    pub fn delivery(&mut self, reply: &TurnId, part: usize, delivery: &Delivery) {
        if let Some(row) = self.row_of(reply, part) {
            row.view.delivery = Some(delivery.clone());
        }
    }

    /// The newest, at most `limit`, the newest last.
    pub fn view(&self, limit: usize) -> Vec<MessageView> {
        let skipped = self.rows.len().saturating_sub(limit);
        self.rows.iter().skip(skipped).map(|row| row.view.clone()).collect()
    }

    fn row_of(&mut self, reply: &TurnId, part: usize) -> Option<&mut Row> {
        self.rows
            .iter_mut()
            .rev()
            .find(|row| row.part.as_ref().is_some_and(|(id, n)| id == reply && *n == part))
    }

    fn push(&mut self, row: Row) {
        if self.rows.len() >= MAX_MESSAGES {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::Assurance;

    fn view(id: u32, text: &str) -> MessageView {
        MessageView {
            at: 1,
            direction: "out",
            node: NodeNum(7),
            name: "x".to_owned(),
            assurance: Assurance::Verified,
            channel: None,
            text: text.to_owned(),
            delivery: Some(Delivery::Sent),
            ignored: None,
            id: PacketId(id),
            snr: None,
            rssi: None,
        }
    }

    #[test]
    fn the_ring_is_bounded() {
        let mut messages = Messages::default();
        for id in 0..600 {
            messages.push_in(view(id, "x"));
        }
        let all = messages.view(1000);
        assert_eq!((all.len(), all[0].id, all[499].id), (500, PacketId(100), PacketId(599)));
        assert_eq!(messages.view(2).iter().map(|m| m.id.0).collect::<Vec<_>>(), [598, 599]);
    }

    #[test]
    fn a_part_is_one_message_until_it_arrived() {
        let mut messages = Messages::default();
        let reply = TurnId("m-1".to_owned());
        messages.push_out(&reply, 1, view(1, "part"));
        messages.delivery(&reply, 1, &Delivery::NotConfirmed);
        messages.push_out(&reply, 1, view(2, "part"));
        messages.push_out(&reply, 2, view(3, "second"));
        messages.delivery(&reply, 1, &Delivery::Delivered);
        let rows = messages.view(10);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].id, rows[0].delivery.clone()),
            (PacketId(2), Some(Delivery::Delivered))
        );
        assert_eq!(rows[1].delivery, Some(Delivery::Sent));
        // Asked for once more after it arrived: that is another message.
        messages.push_out(&reply, 1, view(4, "part"));
        assert_eq!(messages.view(10).len(), 3);
        messages.delivery(&reply, 3, &Delivery::Delivered);
    }
}
