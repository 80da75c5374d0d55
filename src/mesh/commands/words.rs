//! The fixed words that commands and refusals are answered with: each fits one message, on a channel too.
//!
//! Owns the wording, and names no product, no address and no code in it. Must not decide when something is said.

use crate::assistant::{Assurance, CategorySet, ModelPlace};
use crate::mesh::view::AirtimeView;
use crate::node::{NodeNum, PublicKey};

/// The answer to `stop`: did anything stop?
pub fn stopped(anything: bool) -> &'static str {
    if anything { "Stopped." } else { "Nothing to stop." }
}

/// The answer to `more` when nothing is kept.
pub const NOTHING_MORE: &str = "Nothing more.";
/// The answer to `ok` and `no` when nothing waits for that code: a wrong one, a late one and one that never was are
/// answered alike.
pub const NOTHING_TO_CONFIRM: &str = "Nothing to confirm.";
/// The answer to `no CODE`.
pub const DROPPED: &str = "Dropped: nothing was done.";
/// What becomes of a question for a code that was not sent before a restart; it is all of it that is ever on a disk.
pub const DROPPED_BY_RESTART: &str =
    "The node was restarted before this was confirmed: nothing was done. Please ask again.";

/// Asks a peer to confirm a call. `call`: the tool and its exact arguments.
pub fn confirm(call: &str, code: &str) -> String {
    format!("{call}\nReply: ok {code} (or: no {code}) within 2 min.")
}
/// The end of a turn that brought no answer.
pub const NO_ANSWER: &str = "Sorry, I could not answer that just now. Please try again later.";
/// Over the hourly budget, once a window.
pub const OVER_BUDGET: &str = "That was a lot of questions. Please try again later.";

/// The acknowledgement of a distress text. It promises nothing but what was done.
pub const DISTRESS_SHOWN: &str = "SOS is on this node's page. Maybe NOBODY is looking. This is NOT 911/112 and calls no \
                                  one: call them, and people in range, yourself.";

/// Too many questions wait, once a window.
pub fn busy(minutes: u64) -> String {
    format!("Busy, please try again in {minutes} min.")
}

/// `again` or `short` when no answer is kept.
pub const NOTHING_KEPT: &str = "No answer is kept.";
/// `again` while something of the answer is still to come.
pub const ON_ITS_WAY: &str = "It is still on its way.";
/// `short` when there is nothing to leave out.
pub const SHORT_ALREADY: &str = "It is short already.";
/// The answer to `new`.
pub const NEW_CONVERSATION: &str = "New conversation: what was said before is left out.";
/// The answer to the first `forget`.
pub const FORGET_REALLY: &str = "This deletes our conversation and your kept answers. To do it, send forget again within 2 min.";
/// The answer to the second.
pub const FORGOTTEN: &str = "Deleted: our conversation and your kept answers.";
/// The answer to `new` and `forget` of someone of whom nothing is remembered.
pub const NOTHING_REMEMBERED: &str = "I remember nothing of you: your key is not known here.";
/// The answer to a right pairing code.
pub fn paired(name: &str, trigger: &str) -> String {
    format!("Paired as {name}. Send: {trigger} help")
}

/// The answer to any other, of someone who is answered at all; the same whether it was wrong, late or never there.
pub const NO_SUCH_CODE: &str = "No such code. Please ask the operator for a new one.";
/// When the disk did not take it.
pub const NOT_DONE: &str = "That did not work. Please try again later.";

/// `again n`, when only so many parts have been sent.
pub fn no_such_part(sent: usize) -> String {
    match sent {
        1 => "Only one part was sent.".to_owned(),
        sent => format!("Only parts 1 to {sent} were sent."),
    }
}

/// How a peer's question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// There is none.
    None,
    /// A model has it.
    Running,
    /// It waits.
    Waiting {
        /// From 1.
        place: usize,
        /// How long that may take.
        minutes: u64,
    },
}

/// The answer to `status`.
pub fn status(job: Job, model: Option<ModelPlace>, air: &AirtimeView) -> String {
    let job = match job {
        Job::None => "No question of yours is open.".to_owned(),
        Job::Running => "Your question is being answered.".to_owned(),
        Job::Waiting { place, minutes } => {
            format!("Your question is no. {place} in line, about {minutes} min.")
        }
    };
    let model = match model {
        Some(ModelPlace::Local) => "local",
        Some(ModelPlace::Cloud) => "cloud",
        Some(ModelPlace::Off) => "off",
        None => "not known",
    };
    let busy = air.channel_utilization.unwrap_or(0.0);
    let air = if air.recovers_in_s > 0 {
        format!("used up, free in {} min", air.recovers_in_s.div_ceil(60))
    } else if busy > 25.0 {
        format!("channel busy ({busy:.0} %)")
    } else {
        match air.share_ms.filter(|share| *share > 0) {
            Some(share) => {
                format!(
                    "{} % of this hour used",
                    (air.used_ms.saturating_mul(100) / share).min(100)
                )
            }
            None => "not known".to_owned(),
        }
    };
    format!("{job} AI: {model}. Air: {air}.")
}

/// The answer to `who`: the number is the sender's claim, the key is what it proved.
pub fn who(
    node: NodeNum,
    key: Option<PublicKey>,
    assurance: Assurance,
    granted: &CategorySet,
    questions_left: u32,
) -> String {
    let key = key.map_or("no key".to_owned(), |key| format!("key {}", key.fingerprint()));
    let sure = match assurance {
        Assurance::Verified => "verified",
        Assurance::Signed => "signed, not verified",
        Assurance::Unverified => "not verified",
    };
    let granted: Vec<&str> = granted.iter().map(|category| category.as_str()).collect();
    let may = if granted.is_empty() { "no tools".to_owned() } else { granted.join(" ") };
    format!("You: {node}, {key}, {sure}. May use: {may}. Questions left: {questions_left}.")
}

/// How that begins; a text of others stands behind it.
const SHORTEN: &str = "Say this again in at most ";

/// Is that what a model is asked for `short`, or a peer's words that begin so?
pub fn is_wish_for_less(question: &str) -> bool {
    question.starts_with(SHORTEN)
}

/// What the model is asked for `short`. `bytes`: how long it may be.
pub fn shorten(answer: &str, bytes: usize) -> String {
    const LONGEST: usize = 6_000;
    let end = (0..=answer.len().min(LONGEST)).rev().find(|end| answer.is_char_boundary(*end));
    let answer = answer.get(..end.unwrap_or(0)).unwrap_or_default();
    format!("{SHORTEN}{bytes} bytes, keeping only what matters most:\n{answer}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::PermissionCategory;

    #[test]
    fn every_answer_is_one_message_at_its_longest() {
        let all: CategorySet = PermissionCategory::ALL.into_iter().collect();
        let (node, key) = (NodeNum(u32::MAX - 1), Some(PublicKey([9; 32])));
        let most = who(node, key, Assurance::Verified, &all, u32::MAX);
        assert!(most.len() <= 200, "{} {most}", most.len()); // only in a direct message
        let stranger = who(node, key, Assurance::Signed, &CategorySet::new(), 6);
        let air = |recovers_in_s, channel_utilization| AirtimeView {
            recovers_in_s,
            channel_utilization,
            used_ms: u64::MAX,
            share_ms: Some(1),
            ..AirtimeView::default()
        };
        let job = Job::Waiting { place: 66, minutes: 60 };
        let status = |air| status(job, None, &air);
        for text in [
            stranger,
            status(air(3600, None)),
            status(air(0, Some(100.0))),
            status(air(0, None)),
            no_such_part(999),
            FORGET_REALLY.to_owned(),
            NOTHING_REMEMBERED.to_owned(),
            DISTRESS_SHOWN.to_owned(),
        ] {
            assert!(text.len() <= 160, "{} {text}", text.len());
        }
    }

    #[test]
    fn the_question_for_a_code_needs_no_more_than_is_kept_free_for_it() {
        let around = confirm("", "ACDEF").len();
        assert!(around <= crate::assistant::guard::ASKING_BYTES, "{around}");
        assert!(DROPPED_BY_RESTART.len() <= 160 && DROPPED.len() <= 160);
    }

    #[test]
    fn status_says_what_is_known() {
        let air = AirtimeView {
            used_ms: 45_000,
            share_ms: Some(180_000),
            channel_utilization: Some(25.0),
            ..AirtimeView::default()
        };
        assert_eq!(
            status(Job::None, Some(ModelPlace::Local), &air),
            "No question of yours is open. AI: local. Air: 25 % of this hour used."
        );
        let busy = AirtimeView { channel_utilization: Some(25.6), ..air.clone() };
        assert_eq!(
            status(Job::Running, Some(ModelPlace::Cloud), &busy),
            "Your question is being answered. AI: cloud. Air: channel busy (26 %)."
        );
        let spent = AirtimeView { recovers_in_s: 61, ..air };
        assert_eq!(
            status(Job::Waiting { place: 2, minutes: 3 }, Some(ModelPlace::Off), &spent),
            "Your question is no. 2 in line, about 3 min. AI: off. Air: used up, free in 2 min."
        );
    }

    #[test]
    fn a_long_answer_is_cut_between_characters_before_it_is_shortened() {
        let asked = shorten(&"ї".repeat(5_000), 100);
        assert!(asked.len() < 6_100 && asked.ends_with('ї'));
        assert!(shorten("abc", 40).ends_with(":\nabc"));
        assert!(is_wish_for_less(&shorten("abc", 40)) && !is_wish_for_less("say it again"));
    }
}
